"""Frames and labels exported as rows for training; no row contains frames of another utterance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bochner.data import open_source
from bochner.speech.frames import FrameStore, write_frames
from bochner.speech.frontend.postprocess import export_labelled


@pytest.fixture
def store(tmp_path: Path) -> FrameStore:
    """Each frame holds the number of its utterance and its position."""
    arrays = ((f"u{i}", np.array([[i, t] for t in range(3 + i)], "float32")) for i in range(6))
    return write_frames(tmp_path / "frames", arrays)


def labels(store: FrameStore) -> dict[str, np.ndarray]:
    return {name: np.full(size, int(name[1:]), "int32") for name, size in store.sizes.items()}


def test_no_row_crosses_an_utterance(tmp_path: Path, store: FrameStore) -> None:
    exported = export_labelled(store, labels(store), tmp_path / "rows", left=4, right=2)
    assert exported.without_labels == ()
    source = open_source(tmp_path / "rows", shard_rows=5)
    assert source.num_inputs == 7 * 2
    blocks = [source.read(shard) for shard in range(len(source.shard_sizes))]
    X, y = torch.cat([block.X for block in blocks]), torch.cat([block.y for block in blocks])
    assert len(X) == store.num_frames
    for row, label in zip(X.reshape(-1, 7, 2), y, strict=True):
        assert (row[:, 0] == label).all()
        t, last = row[4, 1], 2 + label
        expected = [min(max(t + j, 0), last) for j in range(-4, 3)]
        assert row[:, 1].tolist() == expected


def test_labels_may_come_from_a_store(tmp_path: Path, store: FrameStore) -> None:
    alignment = write_frames(tmp_path / "alignment", labels(store).items())
    source = export_labelled(store, alignment, tmp_path / "rows").source
    assert source.read(0).y.tolist()[:4] == [0, 0, 0, 1]


def test_utterances_without_labels_are_named(tmp_path: Path, store: FrameStore) -> None:
    some = {name: y for name, y in labels(store).items() if name not in ("u1", "u4")}
    exported = export_labelled(store, some, tmp_path / "rows")
    assert exported.without_labels == ("u1", "u4")
    assert sum(exported.source.shard_sizes) == store.num_frames - 4 - 7


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"u2": np.zeros(4, "int32")}, r"labels of 'u2' must be integers \[5\], one per frame, got int32 \[4\]"),
        ({"u2": np.zeros(5)}, r"labels of 'u2' must be integers \[5\]"),
        ({"zoe": np.zeros(5, "int32")}, r"must be of utterances in .*frames, got \['zoe'\] besides"),
    ],
)
def test_labels_that_are_refused(
    tmp_path: Path, store: FrameStore, changed: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        export_labelled(store, {**labels(store), **changed}, tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_no_labels_at_all(tmp_path: Path, store: FrameStore) -> None:
    with pytest.raises(ValueError, match=r"must name utterances of .*frames, got none"):
        export_labelled(store, {}, tmp_path / "rows")
