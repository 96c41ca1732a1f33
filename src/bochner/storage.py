"""Save and load bochner's objects: one safetensors file, no pickle.

A stored object is a tree of constructor calls. Tensors and numeric arrays go into the file under the path of their
argument (`projection.frequencies`); everything else goes into the header as JSON. Loading only calls constructors of
classes in the registry, which check their own arguments, so a file cannot run code. A checksum covers header and
tensors: a damaged file is an error, not a different model.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import os
import secrets
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from bochner.remote import upload

FORMAT_VERSION = 1
CHECKSUM = "sha256"
# Levels of a stored tree; a sum of kernels in a sum takes two. Deeper ones would exhaust Python's stack here or in use.
MAX_LEVELS = 240
# Their imports register all classes that files name; they are imported when a file names one that is not there yet.
PACKAGES = ("bochner.lowrank", "bochner.estimators")
_Class = TypeVar("_Class", bound=type)


class Storable(nn.Module):
    """A module defined by its constructor's arguments, each kept as the attribute of the same name."""

    registry: ClassVar[dict[str, type]] = {}

    def __init_subclass__(cls, *, abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not abstract:
            register(cls)

    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor call that makes this object."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def restored(self) -> Any:
        """What `load` returns: the object itself, unless it represents another."""
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


def register(cls: _Class) -> _Class:
    """Allow files to construct `cls`, a dataclass or a `Storable`; a decorator for dataclasses of storable values.

    >>> @register
    ... @dataclasses.dataclass(frozen=True)
    ... class Pair:
    ...     first: int
    ...     second: tuple[str, ...]
    >>> unpack(pack(Pair(1, ("a", "b")), "", {}), {})
    Pair(first=1, second=('a', 'b'))
    """
    known = Storable.registry.get(cls.__name__)
    if known is not None and known.__module__ != cls.__module__:  # a file names classes by their bare name
        raise TypeError(f"{cls.__name__} is already defined in {known.__module__}: choose another name.")
    Storable.registry[cls.__name__] = cls
    return cls


def save(thing: Any, path: str | os.PathLike[str]) -> None:
    """Write a kernel, map, model or fitted estimator to `path`: atomically, and on disk when this returns."""
    tensors: dict[str, Tensor] = {}
    module = thing if isinstance(thing, Storable) else _storable(thing)
    tree = pack(module, "", tensors)
    write_tensors(path, tensors, {"version": FORMAT_VERSION, "tree": tree})


def load(path: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> Any:
    """Read what `save` wrote, onto `device`.

    >>> import tempfile, torch, bochner
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     bochner.save(bochner.kernels.Laplacian(bandwidth=3.0), directory + "/kernel.safetensors")
    ...     bochner.load(directory + "/kernel.safetensors")
    Laplacian(bandwidth=3.0)
    """
    tensors, stored = read_tensors(path, device=device)
    try:
        if stored["version"] != FORMAT_VERSION:
            raise ValueError(f"version {stored['version']!r}, this bochner reads {FORMAT_VERSION}")
        loaded = unpack(stored["tree"], tensors)
        if not isinstance(loaded, Storable):
            raise TypeError(f"its tree is a {type(loaded).__name__}")
        return loaded.restored()
    except Exception as error:  # a hostile file can make a constructor fail in any way
        raise ValueError(f"{path} does not hold a bochner object: {error}") from error


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Tensors and a JSON header in one safetensors file, written atomically."""
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
    """Read the file of `write_tensors`; anything else is a ValueError that names the path."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            header = dict(json.loads((file.metadata() or {})["bochner"]))
        expected = header.pop(CHECKSUM, None)
        if expected is not None and expected != checksum(header, tensors):
            raise ValueError("its checksum differs; the file is damaged")
    except SafetensorError as error:
        raise ValueError(f"{path} is not a readable safetensors file: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} does not hold a bochner object: {error!r}") from error
    # Copies: safetensors returns views into the file, at addresses that are not multiples of 64 bytes. Products of such
    # operands may round differently, and a resumed run would differ from an uninterrupted one in the last bit.
    return {name: tensor.to(device, copy=True) for name, tensor in tensors.items()}, header


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


def pack(value: Any, key: str, tensors: dict[str, Tensor], level: int = 0) -> Any:
    """`value` as JSON, with its tensors and numeric arrays moved to `tensors` under names that begin with `key`.

    Values are tensors, NumPy arrays and scalars, `Storable` modules, registered dataclasses, None, bool, int, float,
    str, and lists, tuples and dicts of these.

    >>> pack({"a": (1, 2.5), 3: None}, "", {})
    {'dict': [['a', {'tuple': [1, 2.5]}], [3, None]]}
    """
    if level > MAX_LEVELS:
        raise ValueError(f"{key[:80]}... cannot be stored: it is nested deeper than {MAX_LEVELS} levels.")
    inner = level + 1
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        tensors[key] = value
        return {"tensor": key}
    if isinstance(value, np.ndarray):
        return _pack_array(value, key, tensors)
    if isinstance(value, dict):
        # an identifier has no dot and an index no letter: two paths never meet
        names = [name if isinstance(name, str) and name.isidentifier() else i for i, name in enumerate(value)]
        parts = [pack(part, _join(key, name), tensors, inner) for name, part in zip(names, value.values(), strict=True)]
        return {"dict": [[pack(name, key, tensors), part] for name, part in zip(value, parts, strict=True)]}
    if isinstance(value, list | tuple | nn.ModuleList | nn.ParameterList):
        parts = [pack(part, _join(key, i), tensors, inner) for i, part in enumerate(value)]
        return {"tuple": parts} if isinstance(value, tuple) else parts
    if isinstance(value, Storable) or Storable.registry.get(type(value).__name__) is type(value):
        packed = {name: pack(part, _join(key, name), tensors, inner) for name, part in _arguments(value).items()}
        return {"class": type(value).__name__, "arguments": packed}
    raise TypeError(f"{key} cannot be stored: {type(value).__name__} is not a tensor or plain value.")


def unpack(tree: Any, tensors: Mapping[str, Tensor], level: int = 0) -> Any:
    """The inverse of `pack`: the value of `tree` and `tensors`."""
    if level > MAX_LEVELS:
        raise ValueError(f"it is nested deeper than {MAX_LEVELS} levels")
    inner = level + 1
    match tree:
        case {"tensor": key}:
            return tensors[key]
        case {"array": content}:
            return _unpack_array(tree, unpack(content, tensors, inner))
        case {"dict": pairs}:
            return {unpack(name, tensors, inner): unpack(part, tensors, inner) for name, part in pairs}
        case {"tuple": parts}:
            return tuple(unpack(part, tensors, inner) for part in parts)
        case dict():
            cls = _class_named(tree["class"])
            arguments = {name: unpack(part, tensors, inner) for name, part in tree["arguments"].items()}
            return cls(**arguments)
        case list():
            return [unpack(part, tensors, inner) for part in tree]
    return tree


def _class_named(name: str) -> type:
    """The registered class; all packages that define some are imported if it is not known yet."""
    if name not in Storable.registry:
        for package in PACKAGES:
            import_module(package)
    if name not in Storable.registry:
        raise ValueError(f"unknown class {name!r}")
    return Storable.registry[name]


def _arguments(value: Any) -> dict[str, Any]:
    if isinstance(value, Storable):
        return value.arguments()
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _pack_array(array: np.ndarray[Any, Any], key: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Numbers as a tensor; text and objects as a flat list of plain values."""
    if array.dtype.kind in "biuf":
        native = array.astype(array.dtype.newbyteorder("="))
        return {"array": pack(torch.from_numpy(native), key, tensors)}
    if array.dtype.kind in "UO" and all(isinstance(part, bool | int | float | str) for part in array.flat):
        return {"array": array.ravel().tolist(), "shape": list(array.shape), "text": array.dtype.kind == "U"}
    raise TypeError(f"{key} cannot be stored: an array of {array.dtype} is neither numbers nor text.")


def _unpack_array(tree: Mapping[str, Any], content: Any) -> np.ndarray[Any, Any]:
    if isinstance(content, Tensor):
        numbers: np.ndarray[Any, Any] = content.cpu().numpy()
        return numbers
    if not all(isinstance(part, bool | int | float | str) for part in content):
        raise TypeError("an array of objects holds something other than numbers and text")
    return np.array(content, dtype=str if tree["text"] else object).reshape(tree["shape"])


def _join(key: str, name: str | int) -> str:
    return f"{key}.{name}".lstrip(".")


def write_atomically(path: Path, content: bytes) -> None:
    """Write `path` atomically: to a temporary file, which is then renamed; on disk, and uploaded if it lies in a
    `bochner.remote.Mirror`, when this returns."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno:  # that of a full disk names no file, others the temporary one
            error.filename = str(path)
        raise
    upload(path)


def sync_directory(directory: Path) -> None:
    """Write the names of new and renamed files in `directory` to disk, if the system supports it."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"Tensor{list(value.shape)}"
    if isinstance(value, nn.ModuleList | nn.ParameterList):
        return f"[{', '.join(_shown(part) for part in value)}]"
    return repr(value)
