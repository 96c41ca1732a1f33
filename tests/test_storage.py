"""Files: objects are restored bit for bit, and any other content is refused."""

import json
import os
import pickle
import random
import stat
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save as to_bytes
from torch import Generator, Tensor

import bochner
from bochner.features import ArcCosineMap, EnsembleNystromMap, FourierMap, NystromMap, TensorSketchMap
from bochner.kernels import ArcCosine, Cauchy, Gaussian, Kernel, Laplacian, Matern, Polynomial, SparseGaussian
from bochner.storage import FORMAT_VERSION, Storable, read_tensors, register, write_tensors


def seeded() -> Generator:
    return Generator().manual_seed(0)


def points(count: int = 40) -> Tensor:
    return torch.randn(count, 6, generator=seeded())


def nested() -> Kernel:
    """Sums within products, tensors at every depth."""
    A = torch.randn(6, 6, generator=seeded(), dtype=torch.float64)
    return 0.1 * (Gaussian(metric=A @ A.T) * Laplacian(scale=points()[0].abs()) + Matern(scale=3.0)) + Cauchy()


def fourier(kernel: Kernel, projection: str, form: str = "paired") -> FourierMap:
    return FourierMap.draw(kernel, num_inputs=6, num_features=16, projection=projection, form=form, generator=seeded())


OBJECTS = {
    "kernel": nested,
    "fourier": lambda: fourier(nested(), "iid"),
    "cosine": lambda: fourier(nested(), "sobol", "cosine"),
    "orthogonal": lambda: fourier(Matern(), "orthogonal"),
    "hadamard": lambda: fourier(Gaussian(scale=points()[0].abs()), "hadamard2", "cosine"),
    "fastfood": lambda: fourier(Gaussian(), "fastfood"),
    "circulant": lambda: fourier(Gaussian(), "circulant"),
    "sparse": lambda: fourier(SparseGaussian(subset_size=2), "sparse"),
    "nystrom": lambda: NystromMap.fit(nested(), points(), num_landmarks=8, generator=seeded()),
    "ensemble": lambda: EnsembleNystromMap.fit(Gaussian(), points(), num_landmarks=8, generator=seeded()),
    "arc-cosine": lambda: ArcCosineMap.draw(ArcCosine(depth=2), num_inputs=6, num_features=8, generator=seeded()),
    "sketch": lambda: TensorSketchMap.draw(Polynomial(), num_inputs=6, num_features=8, generator=seeded()),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "object.safetensors"


# -- round trips -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("kind", [str, Path])
def test_is_restored_bit_for_bit(name: str, kind: type, path: Path) -> None:
    saved = OBJECTS[name]()
    bochner.save(saved, kind(path))
    loaded = bochner.load(kind(path))
    assert type(loaded) is type(saved)
    assert repr(loaded) == repr(saved)
    assert torch.equal(loaded(points(10)), saved(points(10)))


def test_tensors_are_read_into_aligned_memory(path: Path) -> None:
    """Products of operands that are not aligned round differently: a resumed run would not be bit-equal."""
    tensors = {name: torch.zeros(size) for name, size in {"a": 3, "b": 5, "c": 7}.items()}
    write_tensors(path, tensors, {})
    stored, _ = read_tensors(path)
    assert [tensor.data_ptr() % 64 for tensor in stored.values()] == [0, 0, 0]


@pytest.mark.parametrize("name", OBJECTS)
def test_saving_again_writes_the_same_file(name: str, path: Path) -> None:
    bochner.save(OBJECTS[name](), path)
    first = path.read_bytes()
    bochner.save(bochner.load(path), path)
    assert path.read_bytes() == first


def test_parts_may_share_a_tensor(path: Path) -> None:
    metric = 2 * torch.eye(6)
    one = Gaussian(metric=metric)
    for shared in (one * one, one + Matern(metric=metric), Gaussian(scale=metric[0]) * Matern(scale=metric[0])):
        bochner.save(shared, path)
        assert torch.equal(bochner.load(path)(points(10)), shared(points(10)))


def test_keeps_dtypes(path: Path) -> None:
    bochner.save(Gaussian(metric=torch.eye(2, dtype=torch.float64)) + Gaussian(scale=torch.ones(2).bfloat16()), path)
    double, half = bochner.load(path).kernels
    assert (double.metric.dtype, half.scale.dtype) == (torch.float64, torch.bfloat16)


def test_keeps_numbers_exactly(path: Path) -> None:
    for bandwidth in (0.1, 1 / 3, 1e-100, 9.876543210987654e99):
        bochner.save(Gaussian(bandwidth=bandwidth), path)
        assert bochner.load(path).bandwidth == bandwidth


def test_what_was_loaded_outlives_its_file(path: Path) -> None:
    bochner.save(OBJECTS["nystrom"](), path)
    loaded = bochner.load(path)
    before = loaded(points(10))
    bochner.save(Gaussian(), path)
    path.unlink()
    assert torch.equal(loaded(points(10)), before)


def test_what_cannot_be_stored_is_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storable, "registry", {})  # the class below must not stay in it

    class Odd(Storable):
        def __init__(self, rule: object) -> None:
            super().__init__()
            self.rule = rule

    with pytest.raises(TypeError, match=r"rule.*function"):
        bochner.save(Odd([1, {"a"}.union]), path)
    with pytest.raises(TypeError, match="can be saved, got dict"):
        bochner.save({"weights": torch.ones(2)}, path)
    assert not path.exists()


def test_a_name_belongs_to_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files name classes by their bare name."""
    monkeypatch.setattr(Storable, "registry", {"Gaussian": Gaussian})
    with pytest.raises(TypeError, match=rf"Gaussian is already defined in {Gaussian.__module__}"):
        register(type("Gaussian", (), {"__module__": "elsewhere"}))
    assert register(Gaussian) is Gaussian


def test_replace_changes_one_argument_and_leaves_the_original() -> None:
    kernel = Matern(smoothness=2.5, scale=torch.ones(2))
    changed = kernel.replace(bandwidth=3.0)
    assert (changed.bandwidth, changed.smoothness, kernel.bandwidth) == (3.0, 2.5, 1.0)
    assert torch.equal(changed.scale, kernel.scale)


# -- whole or not at all ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace"])
def test_an_interrupted_save_leaves_the_old_file(
    step: str, error: BaseException, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise error

    bochner.save(Gaussian(), path)
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        with pytest.raises(type(error)):
            bochner.save(OBJECTS["nystrom"](), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_save_is_on_disk_before_it_gets_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda *a: (steps.append("fsync"), fsync(*a))[1])
    monkeypatch.setattr(Path, "replace", lambda *a: (steps.append("replace"), replace(*a))[1])
    bochner.save(Gaussian(), path)
    assert steps[:2] == ["fsync", "replace"]
    assert list(path.parent.iterdir()) == [path]


# -- hostile files ---------------------------------------------------------------------------------------------------


def assert_refused(path: Path, *words: str) -> None:
    with pytest.raises(ValueError) as caught:
        bochner.load(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def write(path: Path, tree: object, tensors: dict[str, Tensor] | None = None, *, version: object = 1) -> None:
    write_header(path, json.dumps({"version": version, "tree": tree}), tensors)


def write_header(path: Path, header: str, tensors: dict[str, Tensor] | None = None) -> None:
    path.write_bytes(to_bytes(tensors or {}, {"bochner": header}))


def call(name: object, **arguments: object) -> dict[str, Any]:
    return {"class": name, "arguments": arguments}


def test_the_helpers_below_write_what_load_reads(path: Path) -> None:
    write(path, call("Gaussian", metric={"tensor": "m"}), {"m": torch.eye(2)}, version=FORMAT_VERSION)
    assert torch.equal(bochner.load(path).metric, torch.eye(2))


@pytest.mark.parametrize("content", [b"", b"\0" * 8, b"\xff" * 64, b"{}", b"not a file of ours" * 10], ids=repr)
def test_foreign_bytes_are_refused(content: bytes, path: Path) -> None:
    path.write_bytes(content)
    assert_refused(path)


def test_truncated_files_are_refused(path: Path) -> None:
    bochner.save(OBJECTS["nystrom"](), path)
    content = path.read_bytes()
    for length in random.Random(0).sample(range(len(content)), 50):
        path.write_bytes(content[:length])
        assert_refused(path)


def test_files_with_more_behind_them_are_refused(path: Path) -> None:
    bochner.save(OBJECTS["nystrom"](), path)
    path.write_bytes(path.read_bytes() + b"\0")
    assert_refused(path)


def test_flipped_bits_are_refused_or_change_nothing(path: Path) -> None:
    bochner.save(OBJECTS["nystrom"](), path)
    content, chance = path.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(300):
        flipped = bytearray(content)
        flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            bochner.save(bochner.load(path), path)
            assert path.read_bytes() == content
        except ValueError as error:
            refused += 1
            assert str(path) in str(error)
    assert refused > 280


def test_a_pickle_is_not_run(path: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "sprung",)

    path.write_bytes(pickle.dumps(Trap()))
    assert_refused(path)
    torch.save({"trap": Trap()}, path)
    assert_refused(path)
    assert not (tmp_path / "sprung").exists()


def test_safetensors_of_someone_else_are_refused(path: Path) -> None:
    path.write_bytes(to_bytes({"weight": torch.ones(3)}))
    assert_refused(path, "bochner")
    path.write_bytes(to_bytes({"weight": torch.ones(3)}, {"format": "pt"}))
    assert_refused(path, "bochner")


@pytest.mark.parametrize(
    "header", ["", "nonsense", "NaN", "3", "[]", "{}", '{"version": 1}', '{"tree": 1}', "9" * 5000], ids=lambda h: h[:9]
)
def test_a_header_of_another_form_is_refused(header: str, path: Path) -> None:
    write_header(path, header)
    assert_refused(path)


@pytest.mark.parametrize("version", [0, 2, "1", None, [1]])
def test_another_version_is_refused(version: object, path: Path) -> None:
    write(path, call("Gaussian"), version=version)
    assert_refused(path, f"version {version!r}", str(FORMAT_VERSION))


@pytest.mark.parametrize(
    "nest", ['{"class": "Sum", "arguments": {"kernels": ', "[", '{"a": '], ids=["sum", "list", "dict"]
)
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_refused(nest: str, closed: bool, path: Path) -> None:
    levels = 100_000
    end = nest.count("{") * "}" + nest.count("[") * "]"
    write_header(path, '{"version": 1, "tree": ' + levels * nest + "1" + closed * (levels * end + "}"))
    assert_refused(path)


@pytest.mark.parametrize("name", ["os.system", "Module", "", "gaussian", None, 3, ["Gaussian"], {}], ids=repr)
def test_unknown_classes_are_refused(name: object, path: Path) -> None:
    write(path, call(name))
    assert_refused(path, f"unknown class {name!r}" if isinstance(name, str) else "bochner")


@pytest.mark.parametrize("key", ["n", "", None, 3, ["m"], {}], ids=repr)
def test_unknown_tensors_are_refused(key: object, path: Path) -> None:
    write(path, call("Gaussian", metric={"tensor": key}), {"m": torch.eye(2)})
    assert_refused(path)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"class": "Gaussian"},
        {"class": "Gaussian", "arguments": [1.0]},
        {"class": "Gaussian", "arguments": None},
        call("Gaussian", bandwidth=-1.0),
        call("Gaussian", bandwidth="1"),
        call("Gaussian", bandwidth=call("Gaussian")),
        call("Gaussian", bandwidth={"tensor": "m"}),
        call("Gaussian", variance=1.0),
        call("Gaussian", self=1.0),
        call("Gaussian", scale=1.0, metric={"tensor": "m"}),
        call("Gaussian", metric=[[1.0]]),
        call("Gaussian", metric={"tensor": "indefinite"}),
        call("Gaussian", metric={"tensor": "nan"}),
        call("Gaussian", metric={"tensor": "integers"}),
        call("Gaussian", metric={"tensor": "complex"}),
        call("Gaussian", metric={"tensor": "empty"}),
        call("Gaussian", metric={"tensor": "eight-bit"}),
        call("Gaussian", bandwidth=10**400),
        call("Matern", smoothness=1.0),
        call("ArcCosine", order={"tensor": "m"}),
        call("ArcCosineMap", kernel=call("ArcCosine"), weights=[{"tensor": "vector"}]),
        call("SparseProjection", num_inputs={"tensor": "m"}, places={"tensor": "m"}, values={"tensor": "m"}),
        call("ArcCosine", order=7),
        call("Sum", kernels=3),
        call("Sum", kernels=[]),
        call("Sum", kernels="ab"),
        call("Sum", kernels=[1.0]),
        call("Sum", kernels=call("Gaussian")),
        call("Sum", kernels=[call("Gaussian")], weights=[1.0, 2.0]),
        call("FourierMap", kernel=call("Gaussian")),
        call("FourierMap", kernel=call("Gaussian"), projection=call("Gaussian")),
        call("DenseProjection", frequencies={"tensor": "cube"}),
        call("NystromMap", kernel=call("Gaussian"), landmarks=3, normalization={"tensor": "m"}),
        call("NystromMap", kernel=call("Gaussian"), landmarks={"tensor": "m"}, normalization={"tensor": "cube"}),
    ],
    ids=lambda tree: str(tree)[:60],
)
def test_arguments_that_the_class_refuses_are_refused(tree: object, path: Path) -> None:
    tensors = {
        "m": torch.eye(2),
        "nan": torch.full((2, 2), torch.nan),
        "indefinite": torch.tensor([[1.0, 2.0], [2.0, 1.0]]),
        "integers": torch.ones(2, 2, dtype=torch.int64),
        "complex": torch.ones(2, 2, dtype=torch.complex64),
        "cube": torch.ones(2, 2, 2),
        "vector": torch.ones(2),
        "empty": torch.ones(0, 0),
        "eight-bit": torch.eye(2).to(torch.float8_e4m3fn),
    }
    write(path, tree, tensors)
    assert_refused(path, "bochner")


@pytest.mark.parametrize("tree", [3, "Gaussian", None, [], {"tensor": "m"}, [call("Gaussian")]], ids=str)
def test_what_is_no_object_is_refused(tree: object, path: Path) -> None:
    write(path, tree, {"m": torch.eye(2)})
    assert_refused(path, "bochner")


def test_a_missing_file_is_missing(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bochner.load(path)


# -- hostile and unlucky files ---------------------------------------------------------------------------------------


def test_a_depth_that_never_ends_is_refused(path: Path) -> None:
    tree = {"class": "ArcCosine", "arguments": {"order": 1, "depth": 10**9}}
    write_tensors(path, {}, {"version": FORMAT_VERSION, "tree": tree})
    with pytest.raises(ValueError, match=r"object\.safetensors.*depth must be at most 1000, got 1000000000"):
        bochner.load(path)


def test_trees_that_are_nested_too_deep_are_refused(path: Path) -> None:
    tree: dict[str, Any] = {"class": "Gaussian", "arguments": {"bandwidth": 1.0}}
    for _ in range(150):
        tree = {"class": "Sum", "arguments": {"kernels": [tree], "weights": [1.0]}}
    write_tensors(path, {}, {"version": FORMAT_VERSION, "tree": tree})
    with pytest.raises(ValueError, match=r"object\.safetensors.*nested deeper than 240 levels"):
        bochner.load(path)
    kernel: Kernel = Gaussian()
    for _ in range(110):
        kernel = kernel + Gaussian()
    bochner.save(kernel, path)  # what can be saved can be loaded and used
    assert bochner.load(path)(points(2)).shape == (2, 2)
    for _ in range(100):
        kernel = kernel + Gaussian()
    with pytest.raises(ValueError, match="nested deeper than 240 levels"):
        bochner.save(kernel, path)


@pytest.mark.skipif(os.name != "posix", reason="only POSIX systems synchronize directories")
def test_the_name_of_a_new_file_is_on_disk_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bool] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode)))
    bochner.save(Gaussian(), path)
    assert synced == [False, True]  # the content, then the directory
