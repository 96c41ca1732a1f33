"""Save and load what bochner builds: one safetensors file, no pickle.

A stored object is a tree of constructor calls. Tensors go into the file under the path of their argument
(`projection.frequencies`); everything else goes into the header as JSON. Loading only ever calls constructors of
classes in the registry, which check their own arguments, so a file cannot run code. A checksum of all of it stands
beside: a file that was damaged is an error, not another model.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

FORMAT_VERSION = 1
CHECKSUM = "sha256"


class Storable(nn.Module):
    """A module that is its constructor's arguments: each is kept as the attribute of the same name."""

    registry: ClassVar[dict[str, type[Storable]]] = {}

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if abstract:
            return
        known = Storable.registry.get(cls.__name__)
        if known is not None and known.__module__ != cls.__module__:  # a file names classes by their bare name
            raise TypeError(f"{cls.__name__} is taken by {known.__module__}: choose another name.")
        Storable.registry[cls.__name__] = cls

    def arguments(self) -> dict[str, Any]:
        """The constructor call that makes this object."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def restored(self) -> Any:
        """What `load` gives back: the object itself, unless it stands for another."""
        return self

    def replace(self, **changes: Any) -> Self:
        """The same object with some arguments changed.

        >>> from bochner.kernels import Gaussian
        >>> Gaussian(bandwidth=1.0).replace(bandwidth=2.0)
        Gaussian(bandwidth=2.0)
        """
        return type(self)(**{**self.arguments(), **changes})

    def __repr__(self) -> str:
        shown = (f"{name}={_shown(value)}" for name, value in self.arguments().items() if value is not None)
        return f"{type(self).__name__}({', '.join(shown)})"


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a kernel, map, model or fitted estimator to `path`: whole or not at all, and on disk when this returns."""
    tensors: dict[str, Tensor] = {}
    module = thing if isinstance(thing, Storable) else _storable(thing)
    tree = _pack(module, "", tensors)
    write_tensors(path, tensors, {"version": FORMAT_VERSION, "tree": tree})


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Any:
    """Read what `save` wrote, onto `device`.

    >>> import tempfile, torch, bochner
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     bochner.save(bochner.kernels.Laplacian(bandwidth=3.0), folder + "/kernel.safetensors")
    ...     bochner.load(folder + "/kernel.safetensors")
    Laplacian(bandwidth=3.0)
    """
    tensors, stored = read_tensors(path, device=device)
    try:
        if stored["version"] != FORMAT_VERSION:
            raise ValueError(f"version {stored['version']!r}, this bochner reads {FORMAT_VERSION}")
        loaded = _unpack(stored["tree"], tensors)
        if not isinstance(loaded, Storable):
            raise TypeError(f"its tree is a {type(loaded).__name__}")
        return loaded.restored()
    except Exception as error:  # a hostile file can make a constructor fail in any way
        raise ValueError(f"{path} does not hold a bochner object: {error}") from error


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Tensors and a JSON header in one safetensors file, written whole or not at all."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    owner = {tensor.untyped_storage().data_ptr(): name for name, tensor in stored.items()}
    for name, tensor in stored.items():  # safetensors stores no two tensors in one memory
        if owner[tensor.untyped_storage().data_ptr()] != name or tensor.untyped_storage().nbytes() != tensor.nbytes:
            stored[name] = tensor.clone()
    about = json.dumps({**header, CHECKSUM: checksum(header, stored)})
    write_atomically(
        Path(path), to_bytes(stored, {"bochner": about})
    )  # one entry: safetensors keeps no order of several


def read_tensors(
    path: str | os.PathLike[str], *, device: str | torch.device = "cpu"
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `write_tensors` wrote; anything else is a ValueError that names the path."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = dict(json.loads((file.metadata() or {})["bochner"]))
        expected = header.pop(CHECKSUM, None)
        if expected is not None and expected != checksum(header, tensors):
            raise ValueError("its checksum is another one; the file was damaged")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not hold a bochner object: {error!r}") from error
    return {name: tensor.to(device) for name, tensor in tensors.items()}, header


def checksum(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a header as JSON and of every tensor's name, type, shape and bytes.

    >>> checksum({}, {"a": torch.zeros(2)}) == checksum({}, {"a": torch.zeros(1, 2)})
    False
    """
    digest = hashlib.sha256(json.dumps(dict(header)).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _storable(thing: Any) -> Storable:
    if not hasattr(thing, "to_storable"):
        raise TypeError(
            f"only bochner's kernels, maps, models and estimators can be saved, got {type(thing).__name__}."
        )
    stored: Storable = thing.to_storable()
    return stored


def _pack(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Storable):
        packed = {name: _pack(part, f"{key}.{name}".lstrip("."), tensors) for name, part in value.arguments().items()}
        return {"class": type(value).__name__, "arguments": packed}
    if isinstance(value, Tensor):
        tensors[key] = value
        return {"tensor": key}
    if isinstance(value, list | tuple | nn.ModuleList | nn.ParameterList):
        return [_pack(part, f"{key}.{i}", tensors) for i, part in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{key} cannot be stored: {type(value).__name__} is not a tensor or plain value.")


def _unpack(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_unpack(part, tensors) for part in tree]
    if not isinstance(tree, dict):
        return tree
    if "tensor" in tree:
        return tensors[tree["tensor"]]
    if tree["class"] not in Storable.registry:
        raise ValueError(f"unknown class {tree['class']!r}")
    arguments = {name: _unpack(part, tensors) for name, part in tree["arguments"].items()}
    return Storable.registry[tree["class"]](**arguments)


def write_atomically(path: Path, content: bytes) -> None:
    """Write `path` whole or not at all: beside it first, then renamed; on disk when this returns."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor{list(value.shape)}"
    if isinstance(value, nn.ModuleList | nn.ParameterList):
        return f"[{', '.join(_shown(part) for part in value)}]"
    return repr(value)
