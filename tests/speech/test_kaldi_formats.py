"""Kaldi's matrices are read, and no code in a file or a path is run."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from kaldiio import save_ark

from bochner.speech.kaldi_formats import read_integer_vectors, read_matrix

MATRIX = np.random.default_rng(0).standard_normal((7, 3)).astype("float32")


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [({}, 0), ({"text": True}, 1e-6), ({"compression_method": 2}, 0.05), ({"compression_method": 3}, 1e-3)],
)
def test_matrices_come_back(tmp_path: Path, options: dict[str, object], tolerance: float) -> None:
    save_ark(str(tmp_path / "a.ark"), {"x": MATRIX + 1, "y": MATRIX}, scp=str(tmp_path / "a.scp"), **options)
    place = dict(line.split() for line in (tmp_path / "a.scp").read_text().splitlines())["y"]
    found = read_matrix(place)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, MATRIX, atol=tolerance)


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    (tmp_path / "a.ark").write_bytes(b"PKL" + pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(ValueError, match=r"a\.ark:0 does not hold a matrix: it begins with b'PKL"):
        read_matrix(tmp_path / "a.ark:0")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("ending", [" |", ":0|", ""])
def test_no_command_is_run(tmp_path: Path, ending: str) -> None:
    with pytest.raises(ValueError, match=r"must be at file\.ark:offset"):
        read_matrix(f"touch {tmp_path}/sprung{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [0, 5, 12, 20, 60])
def test_archives_cut_short(tmp_path: Path, size: int) -> None:
    save_ark(str(tmp_path / "a.ark"), {"x": MATRIX})
    (tmp_path / "b.ark").write_bytes((tmp_path / "a.ark").read_bytes()[2 : 2 + size])
    with pytest.raises(ValueError, match=r"b\.ark:0 (cannot be read as|does not hold) a matrix"):
        read_matrix(tmp_path / "b.ark:0")


def test_a_vector_is_no_matrix(tmp_path: Path) -> None:
    save_ark(str(tmp_path / "a.ark"), {"x": MATRIX[0]})
    with pytest.raises(ValueError, match=r"must hold a matrix \[T, d\], got shape \[3\]"):
        read_matrix(tmp_path / "a.ark:2")


IDS = {"u1": np.array([2, 1, 1, 4], np.int32), "u2": np.array([], np.int32), "u3": np.array([-6], np.int32)}


@pytest.mark.parametrize("text", [False, True])
def test_integer_vectors_come_back(tmp_path: Path, text: bool) -> None:
    if text:  # as Kaldi's copy-int-vector writes them
        content = b"".join(b"%s %s\n" % (name.encode(), b"".join(b"%d " % i for i in ids)) for name, ids in IDS.items())
    else:
        save_ark(str(tmp_path / "a.ark"), IDS)
        content = (tmp_path / "a.ark").read_bytes()
    found = dict(read_integer_vectors(io.BytesIO(content)))
    assert list(found) == list(IDS)
    for name, ids in found.items():
        assert ids.dtype == np.int32
        np.testing.assert_array_equal(ids, IDS[name])


def test_no_vector_is_unpickled(tmp_path: Path) -> None:
    content = b"u1 PKL" + pickle.dumps(Trap(tmp_path / "sprung"))
    with pytest.raises(ValueError, match="u1 is not a vector of integers"):
        list(read_integer_vectors(io.BytesIO(content)))
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("size", [2, 4, 7, 12, 20])
def test_vectors_cut_short(tmp_path: Path, size: int) -> None:
    save_ark(str(tmp_path / "a.ark"), IDS)
    content = (tmp_path / "a.ark").read_bytes()[:size]
    with pytest.raises(ValueError, match=r"the archive ends (within|after)"):
        list(read_integer_vectors(io.BytesIO(content)))


def test_a_key_without_an_end() -> None:
    with pytest.raises(ValueError, match=r"'xxxxx.*' continues without a space"):
        list(read_integer_vectors(io.BytesIO(b"x" * 100_000)))
