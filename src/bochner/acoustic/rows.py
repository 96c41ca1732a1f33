"""Labelled frames as the rows that models are trained on: between their neighbours, each number on one scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.storage import Storable

Array = NDArray[Any]
SHARD_ROWS = 4096


class Normaliser(NamedTuple):
    """Mean and standard deviation [d] of a frame's numbers, learned on train."""

    mean: Tensor
    std: Tensor

    @classmethod
    def of(cls, frames: Tensor) -> Normaliser:
        """Of frames [N, d]; a number that never varies keeps its scale."""
        std = frames.double().std(dim=0, correction=0)
        return cls(frames.double().mean(dim=0).float(), torch.where(std > 0, std, 1.0).float())


class Splicer(Storable):
    """From the frames of one utterance to its rows: (x - mean) / std, then each frame between its neighbours.

    [T, d] -> [T, (left + 1 + right) d]; beyond the ends of the utterance its first and last frames are repeated.
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

    @property
    def num_inputs(self) -> int:
        return (self.left + 1 + self.right) * len(self.mean)

    def normalised(self, frames: Tensor) -> Tensor:
        """Frames [N, d] of any utterances on one scale."""
        return (checks.inputs("frames", frames, width=len(self.mean)) - self.mean) / self.std

    def forward(self, frames: Tensor) -> Tensor:
        last = torch.full((len(frames),), len(frames) - 1)
        return self.spliced(self.normalised(frames), torch.arange(len(frames)), torch.zeros_like(last), last)

    def spliced(self, frames: Tensor, places: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """Rows for some places in normalised frames [N, d]; `first` and `last` are the ends of their utterances."""
        offsets = torch.arange(-self.left, self.right + 1)
        around = torch.minimum(torch.maximum(places[:, None] + offsets, first[:, None]), last[:, None])
        return frames[around.to(frames.device)].reshape(len(places), -1)


class LabelledRows:
    """The frames of many utterances with their states, a Source: rows are spliced as they are read.

    A shard takes every n-th frame of all utterances, so that each batch has something of every speaker. Memory: the
    frames once, 4 N d bytes, and a few shards.

    >>> frames, states = {"a": np.eye(2, dtype="float32")}, {"a": np.array([0, 1])}
    >>> rows = LabelledRows.learned(frames, states, ids=["a"], left=1, right=0)
    >>> rows.num_inputs, rows.shard_sizes, rows.read(0).y
    (4, [2], tensor([0, 1]))
    """

    def __init__(self, splicer: Splicer, frames: Mapping[str, Array], states: Mapping[str, Array], ids: Sequence[str]):
        sizes = _checked_sizes(frames, states, ids)
        self.splicer, self.num_inputs = splicer, splicer.num_inputs
        with torch.no_grad():
            self._frames = splicer.normalised(_joined(frames, ids))
        self.states = torch.from_numpy(np.concatenate([states[name] for name in ids]).astype(np.int64))
        ends = torch.tensor(sizes).cumsum(0)
        self._first = torch.repeat_interleave(ends - torch.tensor(sizes), torch.tensor(sizes))
        self._last = torch.repeat_interleave(ends - 1, torch.tensor(sizes))
        self._num_shards = max(1, -(-len(self.states) // SHARD_ROWS))

    @classmethod
    def learned(
        cls, frames: Mapping[str, Array], states: Mapping[str, Array], *, ids: Sequence[str], left: int, right: int
    ) -> LabelledRows:
        """Rows whose scale is that of their own frames: for train."""
        _checked_sizes(frames, states, ids)
        return cls(Splicer(*Normaliser.of(_joined(frames, ids)), left=left, right=right), frames, states, ids)

    @property
    def shard_sizes(self) -> list[int]:
        return [len(self._places(shard)) for shard in range(self._num_shards)]

    def read(self, shard: int) -> Block:
        places = self._places(shard)
        rows = self.splicer.spliced(self._frames, places, self._first[places], self._last[places])
        return Block(rows, self.states[places])

    def _places(self, shard: int) -> Tensor:
        return torch.arange(shard, len(self.states), self._num_shards)


def _joined(frames: Mapping[str, Array], ids: Sequence[str]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.asarray(frames[name], dtype=np.float32) for name in ids]))


def _checked_sizes(frames: Mapping[str, Array], states: Mapping[str, Array], ids: Sequence[str]) -> list[int]:
    if not ids:
        raise ValueError("ids must name at least one utterance with frames and states, got none.")
    for name in ids:
        if len(frames[name]) != len(states[name]):
            raise ValueError(
                f"utterance {name!r} must have a state for each of its {len(frames[name])} frames, got "
                f"{len(states[name])}; align it again with these frames."
            )
    return [len(states[name]) for name in ids]
