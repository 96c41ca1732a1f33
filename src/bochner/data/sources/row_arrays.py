"""Arrays of rows, in memory or on disk, and the parts that they make up together."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bochner.data.sources.convert import Array, DType, Names


class RowArray(Protocol):
    """An array [rows, ...] in memory or on disk."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> DType: ...

    def read(self, rows: slice) -> Array: ...


class Part(NamedTuple):
    """Arrays of the same rows: X [n, d], y [n] or [n, t], weight [n]."""

    X: RowArray
    y: RowArray | None = None
    weight: RowArray | None = None

    @property
    def names(self) -> Names:
        return Names(self.X.name, self.y.name if self.y else "y", self.weight.name if self.weight else "weight")


def check_shapes(part: Part) -> None:
    X, y, weight = part
    if len(X.shape) != 2 or X.shape[1] == 0:
        raise ValueError(f"{X.name} must have shape [rows, inputs], got {X.shape}.")
    if y and len(y.shape) not in (1, 2):
        raise ValueError(f"{y.name} must have shape [rows] or [rows, targets], got {y.shape}.")
    if weight and len(weight.shape) != 1:
        raise ValueError(f"{weight.name} must have shape [rows], got {weight.shape}.")
    for other in (y, weight):
        if other and other.shape[0] != X.shape[0]:
            raise ValueError(f"{other.name} must have as many rows as {X.name}, {X.shape[0]}, got {other.shape[0]}.")


def check_alike(first: Part, part: Part) -> None:
    if part.X.shape[1] != first.X.shape[1]:
        raise ValueError(
            f"{part.X.name} must have {first.X.shape[1]} inputs as {first.X.name} has, got {part.X.shape[1]}."
        )
    for word, here, there in (("targets", part.y, first.y), ("weights", part.weight, first.weight)):
        if (here is None) != (there is None):
            having, lacking = (part, first) if here else (first, part)
            raise ValueError(f"{lacking.X.name} has no {word}, while {having.X.name} has; give them to all or none.")
    if part.y and first.y and part.y.shape[1:] != first.y.shape[1:]:
        raise ValueError(
            f"{part.y.name} must have rows of shape {first.y.shape[1:]} as {first.y.name} has, got {part.y.shape[1:]}."
        )
