"""Rows on their way through the house: blocks, and sources of them that need not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from torch import Tensor


class Block(NamedTuple):
    """Some rows: inputs X [n, d], targets y ([n] class indices, or floats [n] or [n, t]), weights [n] or None."""

    X: Tensor
    y: Tensor
    weight: Tensor | None = None


class Source(Protocol):
    """Rows in shards that can be read in any order, as often as wanted, each the same every time.

    A shard is what is read at once, a few thousand rows: memory is bounded by it, not by the number of rows.
    """

    @property
    def num_inputs(self) -> int: ...

    @property
    def shard_sizes(self) -> Sequence[int]:
        """Rows in each shard."""
        ...

    def read(self, shard: int) -> Block: ...
