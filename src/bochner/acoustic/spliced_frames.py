"""Training rows of acoustic models: standardised frames, each spliced with its neighbours, and their states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.storage import Storable

Array = NDArray[Any]
SHARD_ROWS = 4096  # rows that are spliced at once: 4096 rows of 440 inputs take 7 MB


class Splicer(Storable):
    """Turns the frames of one utterance into rows: (x - mean) / std, then each frame with its neighbours.

    [T, d] -> [T, (left + 1 + right) d]; the first and last frames are repeated beyond the ends of the utterance.
    O(T d (left + right)).

    >>> Splicer(torch.zeros(1), torch.ones(1), left=1, right=1)(torch.tensor([[1.0], [2.0], [3.0]]))
    tensor([[1., 1., 2.],
            [1., 2., 3.],
            [2., 3., 3.]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor, *, left: int, right: int) -> None:
        super().__init__()
        if mean.ndim != 1 or mean.shape != std.shape:
            raise ValueError(f"mean and std must be [d], got {tuple(mean.shape)} and {tuple(std.shape)}.")
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.left, self.right = checks.nonnegative_int("left", left), checks.nonnegative_int("right", right)

    @classmethod
    def fit(cls, frames: Tensor, *, left: int, right: int) -> Splicer:
        """Mean and standard deviation of frames [N, d]; a constant column has standard deviation 1."""
        std = frames.double().std(dim=0, correction=0)
        mean = frames.double().mean(dim=0).float()
        return cls(mean, torch.where(std > 0, std, 1.0).float(), left=left, right=right)

    @property
    def num_inputs(self) -> int:
        return (self.left + 1 + self.right) * len(self.mean)

    def standardize(self, frames: Tensor) -> Tensor:
        """(x - mean) / std for frames [N, d] of any utterances."""
        return (checks.inputs("frames", frames, width=len(self.mean)) - self.mean) / self.std

    def forward(self, frames: Tensor) -> Tensor:
        last = torch.full((len(frames),), len(frames) - 1)
        return self.splice(self.standardize(frames), torch.arange(len(frames)), torch.zeros_like(last), last)

    def splice(self, frames: Tensor, positions: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """Rows at `positions` of standardised frames [N, d]; `first` and `last` are the ends of their utterances."""
        offsets = torch.arange(-self.left, self.right + 1)
        neighbours = torch.minimum(torch.maximum(positions[:, None] + offsets, first[:, None]), last[:, None])
        return frames[neighbours.to(frames.device)].reshape(len(positions), -1)


class SplicedFrames:
    """A data source: the frames of many utterances with their states, spliced when they are read.

    Each shard holds every n-th frame of all utterances, so that each batch contains frames of every speaker. Memory:
    one copy of the frames, 4 N d bytes, and a few shards.

    >>> frames, states = {"a": np.eye(2, dtype="float32")}, {"a": np.array([0, 1])}
    >>> rows = SplicedFrames.fit(frames, states, ids=["a"], left=1, right=0)
    >>> rows.num_inputs, rows.shard_sizes, rows.read(0).y
    (4, [2], tensor([0, 1]))
    """

    def __init__(self, splicer: Splicer, frames: Mapping[str, Array], states: Mapping[str, Array], ids: Sequence[str]):
        sizes = torch.tensor(_check_sizes(frames, states, ids))
        self.splicer, self.num_inputs = splicer, splicer.num_inputs
        with torch.no_grad():
            self._frames = splicer.standardize(_concatenate(frames, ids))
        self.states = torch.from_numpy(np.concatenate([states[name] for name in ids]).astype(np.int64))
        ends = sizes.cumsum(0)
        self._first = torch.repeat_interleave(ends - sizes, sizes)
        self._last = torch.repeat_interleave(ends - 1, sizes)
        self._num_shards = max(1, -(-len(self.states) // SHARD_ROWS))

    @classmethod
    def fit(
        cls, frames: Mapping[str, Array], states: Mapping[str, Array], *, ids: Sequence[str], left: int, right: int
    ) -> SplicedFrames:
        """Rows standardised by their own mean and standard deviation, for the part train."""
        _check_sizes(frames, states, ids)
        return cls(Splicer.fit(_concatenate(frames, ids), left=left, right=right), frames, states, ids)

    @property
    def shard_sizes(self) -> list[int]:
        return [len(self._positions(shard)) for shard in range(self._num_shards)]

    def read(self, shard: int) -> Block:
        positions = self._positions(shard)
        rows = self.splicer.splice(self._frames, positions, self._first[positions], self._last[positions])
        return Block(rows, self.states[positions])

    def _positions(self, shard: int) -> Tensor:
        return torch.arange(shard, len(self.states), self._num_shards)


def _concatenate(frames: Mapping[str, Array], ids: Sequence[str]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.asarray(frames[name], dtype=np.float32) for name in ids]))


def _check_sizes(frames: Mapping[str, Array], states: Mapping[str, Array], ids: Sequence[str]) -> list[int]:
    if not ids:
        raise ValueError("ids must name at least one utterance with frames and states, got none.")
    for name in ids:
        if len(frames[name]) != len(states[name]):
            raise ValueError(
                f"utterance {name!r} must have a state for each of its {len(frames[name])} frames, got "
                f"{len(states[name])}; align it again with these frames."
            )
    return [len(states[name]) for name in ids]
