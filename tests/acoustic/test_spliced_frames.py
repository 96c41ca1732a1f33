"""Spliced frames: equal to those of `bochner.speech`, with every row once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bochner.acoustic.spliced_frames import SHARD_ROWS, SplicedFrames, Splicer
from bochner.speech.frontend.postprocess import splice
from bochner.storage import load, save

SIZES = {"a": 5, "b": 1, "c": 7}


def random_frames(seed: int, sizes: dict[str, int] = SIZES) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    draw = np.random.default_rng(seed)
    frames = {name: (3 + 2 * draw.standard_normal((size, 2))).astype("float32") for name, size in sizes.items()}
    return frames, {name: draw.integers(0, 4, size).astype("int32") for name, size in sizes.items()}


def test_rows_are_the_spliced_standardised_frames_of_one_utterance_each() -> None:
    frames, states = random_frames(0)
    rows = SplicedFrames.fit(frames, states, ids=["a", "b", "c"], left=2, right=1)
    joined = np.concatenate(list(frames.values())).astype("float64")
    scaled = {name: (x - joined.mean(0)) / joined.std(0) for name, x in frames.items()}
    expected = np.concatenate([splice(x, left=2, right=1) for x in scaled.values()])
    block = rows.read(0)
    assert rows.shard_sizes == [13]
    torch.testing.assert_close(block.X.double(), torch.from_numpy(expected), atol=1e-5, rtol=1e-5)
    assert block.y.tolist() == np.concatenate(list(states.values())).tolist()


def test_a_row_of_the_model_is_the_row_it_was_trained_on() -> None:
    frames, states = random_frames(1)
    rows = SplicedFrames.fit(frames, states, ids=["a"], left=1, right=3)
    assert torch.equal(rows.splicer(torch.from_numpy(frames["a"])), rows.read(0).X)


def test_shards_hold_every_row_once_and_something_of_every_utterance() -> None:
    frames, states = random_frames(2, {"a": SHARD_ROWS, "b": SHARD_ROWS + 7})
    rows = SplicedFrames.fit(frames, states, ids=["a", "b"], left=0, right=0)
    blocks = [rows.read(shard) for shard in range(len(rows.shard_sizes))]
    assert [len(block.y) for block in blocks] == rows.shard_sizes
    whole = torch.cat([block.X for block in blocks])
    expected = rows.splicer(torch.from_numpy(np.concatenate([frames["a"], frames["b"]])))
    assert torch.equal(whole[whole[:, 0].argsort()], expected[expected[:, 0].argsort()])
    first = rows.splicer(torch.from_numpy(frames["a"]))[:, 0]
    assert all(0.4 < float(torch.isin(block.X[:, 0], first).float().mean()) < 0.6 for block in blocks)


def test_heldout_rows_are_on_trains_scale() -> None:
    frames, states = random_frames(3)
    train = SplicedFrames.fit(frames, states, ids=["a"], left=0, right=0)
    heldout = SplicedFrames(train.splicer, frames, states, ["c"])
    assert abs(float(train.read(0).X.mean())) < 1e-6
    expected = (frames["c"] - frames["a"].mean(0)) / frames["a"].std(0)
    torch.testing.assert_close(heldout.read(0).X, torch.from_numpy(expected), atol=1e-5, rtol=1e-5)


def test_a_splicer_is_stored_whole(tmp_path: object) -> None:
    splicer = Splicer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), left=2, right=5)
    save(splicer, f"{tmp_path}/splicer.safetensors")
    again = load(f"{tmp_path}/splicer.safetensors")
    assert (again.left, again.right, again.num_inputs) == (2, 5, 16)
    assert torch.equal(again(torch.ones(3, 2)), splicer(torch.ones(3, 2)))


def test_states_of_other_frames_are_refused() -> None:
    frames, states = random_frames(4)
    with pytest.raises(ValueError, match="'c' must have a state for each of its 7 frames, got 6; align it again"):
        SplicedFrames.fit(frames, states | {"c": states["c"][:-1]}, ids=["a", "c"], left=0, right=0)
    with pytest.raises(ValueError, match="ids must name at least one utterance"):
        SplicedFrames.fit(frames, states, ids=[], left=0, right=0)
