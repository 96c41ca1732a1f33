"""Arrays are read from disk as they were written, completely or not at all."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bochner.speech import frames as module
from bochner.speech.frames import Array, FrameStore, FrameWriter, write_frames


def arrays(num: int = 5, dim: int = 3) -> list[tuple[str, Array]]:
    generator = np.random.default_rng(0)
    return [(f"u{i}", generator.standard_normal((4 + i, dim)).astype("float32")) for i in range(num)]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PART_BYTES", 100)


@pytest.mark.parametrize("part_bytes", [1, 100, 10**6])
def test_round_trip_in_parts_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    monkeypatch.setattr(module, "PART_BYTES", part_bytes)
    write_frames(tmp_path / "store", arrays(), about={"kind": "mfcc"})
    store = FrameStore(tmp_path / "store")
    assert store.ids == ("u0", "u1", "u2", "u3", "u4")
    assert store.sizes == {f"u{i}": 4 + i for i in range(5)}
    assert (store.dim, store.dtype, store.about, store.num_frames) == (3, np.float32, {"kind": "mfcc"}, 30)
    for name, array in arrays():
        np.testing.assert_array_equal(store[name], array)
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_frames_are_mapped_and_not_writable(tmp_path: Path) -> None:
    array = write_frames(tmp_path / "store", arrays())["u1"]
    assert isinstance(array, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 0


def test_labels_are_kept_by_the_same_mechanism(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "store", [("a", np.arange(4, dtype="int32"))])
    assert store["a"].dtype == np.int32
    assert store["a"].tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="has no dim"):
        _ = store.dim


def test_another_process_gets_the_path_and_not_the_frames(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "store", [("a", np.zeros((100_000, 3), "float32"))])
    assert store["a"].shape == (100_000, 3)
    sent = pickle.dumps(store)
    assert len(sent) < 1000
    assert pickle.loads(sent)["a"].shape == (100_000, 3)


def test_an_error_on_the_way_leaves_nothing(tmp_path: Path, small_parts: None) -> None:
    def broken() -> Iterator[tuple[str, Array]]:
        yield from arrays()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        write_frames(tmp_path / "store", broken())
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_writer_continues(tmp_path: Path, small_parts: None) -> None:
    first = FrameWriter(tmp_path / "partial", about={"rate": 16000})
    for name, array in arrays()[:4]:
        first.add(name, array)
    held = {"u0", "u1", "u2", "u3"} - FrameWriter(tmp_path / "partial", about={"rate": 16000}).ids
    assert held != {"u0", "u1", "u2", "u3"}  # whole parts survived
    again = FrameWriter(tmp_path / "partial", about={"rate": 16000})
    for name, array in arrays():
        if name not in again.ids:
            again.add(name, array)
    store = again.finish(tmp_path / "store")
    for name, array in arrays():
        np.testing.assert_array_equal(store[name], array)


def test_a_part_without_its_index_does_not_count(tmp_path: Path, small_parts: None) -> None:
    writer = FrameWriter(tmp_path / "partial")
    writer.add(*arrays()[0])
    writer.flush()
    (tmp_path / "partial" / "00000000.jsonl").unlink()
    again = FrameWriter(tmp_path / "partial")
    assert again.ids == set()
    again.add("b", np.ones((2, 3), "float32"))
    np.testing.assert_array_equal(again.finish(tmp_path / "store")["b"], np.ones((2, 3)))


def test_a_writer_does_not_continue_with_other_settings(tmp_path: Path) -> None:
    FrameWriter(tmp_path / "partial", about={"rate": 16000}).add(*arrays()[0])
    with pytest.raises(ValueError, match=r"partial.*rate: 16000 there, 8000 here"):
        FrameWriter(tmp_path / "partial", about={"rate": 8000})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("u9", np.zeros((3, 4), "float32")), "must be like those before it"),
        (("u9", np.zeros((3, 3), "int32")), "must be like those before it"),
        (("u0", np.zeros((3, 3), "float32")), "'u0' twice"),
        (("u9", np.zeros((0, 3), "float32")), "at least one frame"),
        (("u9", np.full((1, 3), np.nan, "float32")), "must be finite"),
        (("u9", np.array(["a"])), "must hold numbers"),
        (("u9", np.float32(3)), "must hold numbers"),
        (("u 9", np.zeros((3, 3), "float32")), "without spaces"),
        (("", np.zeros((3, 3), "float32")), "without spaces"),
    ],
)
def test_arrays_that_are_refused(tmp_path: Path, wrong: tuple[str, Array], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_frames(tmp_path / "store", [*arrays(), wrong])
    assert list(tmp_path.iterdir()) == []


def test_nothing_to_write(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one utterance"):
        write_frames(tmp_path / "store", [])


def test_a_directory_in_use_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ValueError, match="must be new or empty"):
        write_frames(tmp_path, (pytest.fail("consumed") for _ in range(1)))


def test_an_unknown_utterance(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="no utterance 'zoe', only 5 others"):
        write_frames(tmp_path / "store", arrays())["zoe"]


def test_a_flipped_bit_is_an_error(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "frames", [("a", np.zeros((5, 3), "float32")), ("b", np.ones((4, 3), "float32"))])
    part = tmp_path / "frames" / "00000000.npy"
    content = bytearray(part.read_bytes())
    content[-1] ^= 1
    part.write_bytes(bytes(content))
    damaged = FrameStore(store.directory)
    np.testing.assert_array_equal(damaged["a"], np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"00000000\.npy is damaged.*'b'"):
        damaged["b"]


def test_damage_is_named(tmp_path: Path) -> None:
    folder = write_frames(tmp_path / "store", arrays()).directory
    part, index, summary = folder / "00000000.npy", folder / "00000000.jsonl", folder / "store.json"
    whole = part.read_bytes()
    part.write_bytes(whole[:-8])
    with pytest.raises(ValueError, match=r"00000000\.npy cannot be read"):
        FrameStore(folder)["u0"]
    np.save(part, np.zeros((30, 4), "float32"))
    with pytest.raises(ValueError, match=r"must hold float32 \[T, \*\[3\]\]"):
        FrameStore(folder)["u0"]
    np.save(part, np.zeros((29, 3), "float32"))
    with pytest.raises(ValueError, match=r"ends before the frames of 'u4'"):
        FrameStore(folder)["u4"]
    index.write_text(index.read_text() + '{"id": "x"}\n')
    with pytest.raises(ValueError, match=r"00000000\.jsonl, line 6"):
        FrameStore(folder)
    summary.write_text(json.dumps({"version": 99}))
    with pytest.raises(ValueError, match="version 99"):
        FrameStore(folder)
    with pytest.raises(ValueError, match=r"it has no store\.json"):
        FrameStore(tmp_path)
