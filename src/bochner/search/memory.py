"""How a fit keeps to the memory it was given."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

UNITS = {"": 1, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
BUFFERED_SHARDS = 11  # the shuffle's buffer of 8, the shard being read and its parts, the batch
LARGEST_BUFFER = 2**26
ROWS_A_SHARD = (64, 8192)
MOST_DIRECTION_ROWS, FEWEST_DIRECTION_ROWS, MOST_DIRECTIONS = 2048, 64, 256
METRIC_LANDMARKS, FEWEST_METRIC_LANDMARKS = 2048, 64
METRIC_ROWS = 2**16  # a metric is d x d numbers: so many rows tell them well enough
GRADIENT_ROWS = 256
JUDGED_ROWS = 2048
RULE_ROWS = 1000  # what a bandwidth rule looks at
TILE = 2**22  # numbers in a block of features or of a kernel matrix
SPARE = 2**30  # for parts of K_nm where nothing else is said
# Beside what is counted: pieces of blocks, threads, what the allocator keeps.
OVERHEAD = 3 * 2**24


def parse_bytes(budget: int | str | None) -> int | None:
    """A number of bytes, or text such as "500MB" and "2 GB" (powers of 1,024); None is no bound.

    >>> parse_bytes("1.5 KB")
    1536
    """
    if budget is None:
        return None
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?B?)\s*", budget.upper())
        if found is None:
            raise ValueError(f"memory_budget must be bytes or text such as '500MB' or '2GB', got {budget!r}.")
        unit = found[2] if found[2].endswith("B") or not found[2] else found[2] + "B"
        return int(float(found[1]) * UNITS[unit])
    if isinstance(budget, bool) or budget < 1:
        raise ValueError(f"memory_budget must be a positive number of bytes, got {budget!r}.")
    return int(budget)


def rows_per_shard(budget: int | None, *, row_bytes: int) -> int:
    """Rows that arrays are gathered by: the shuffle's buffer takes an eighth of the budget, at most 64 MB."""
    fewest, most = ROWS_A_SHARD
    buffer = LARGEST_BUFFER if budget is None else min(LARGEST_BUFFER, budget // 8)
    return int(min(most, max(fewest, buffer // (BUFFERED_SHARDS * row_bytes))))


@dataclass(frozen=True)
class Sizes:
    """What a fit's memory depends on: N rows in shards of at most `shard_rows`, d inputs, t outputs, D features or
    landmarks, bytes of a number, copies of the weights (the optimizer's too), and whether features stand on landmarks.
    """

    num_rows: int
    shard_rows: int
    num_inputs: int
    num_outputs: int
    num_features: int
    item: int
    copies: int = 6
    has_landmarks: bool = False

    @property
    def row_bytes(self) -> int:
        """A row in the shuffle's buffer; its one-hot targets exist for one shard of eleven."""
        return self.item * self.num_inputs + 16 + 3 * self.num_outputs

    @property
    def buffer(self) -> int:
        return BUFFERED_SHARDS * min(self.shard_rows, self.num_rows) * self.row_bytes

    @property
    def rows(self) -> int:
        """Order, targets, weights and a permutation of all rows; the buffer; rows that rates are judged by."""
        judged = 2 * min(JUDGED_ROWS, self.num_rows)
        return 40 * self.num_rows + judged * self.row_bytes + self.buffer

    @property
    def rule(self) -> int:
        """The rows that a bandwidth rule looks at, and their distances."""
        rows = min(RULE_ROWS, self.num_rows)
        return rows * self.num_inputs * (3 * self.item + 16) + 16 * rows * rows

    @property
    def features(self) -> int:
        """A map while it is drawn; weights, gradients and copies; a block of features with its scores."""
        d, D, t = self.num_inputs, self.num_features, self.num_outputs
        drawn = 4 * (2 * D * D + d * D) if self.has_landmarks else 6 * d * max(D // 2, d)
        at_once = min(max(1, TILE // D), self.num_rows)
        block = min(TILE, self.num_rows * D) + at_once * (2 * d + 12 * t)
        return self.item * (drawn + self.copies * t * D + block)

    def preconditioner_rank(self, rows: int) -> int:
        """The sample's rows and features, its Gram matrix in two types with room to factor it, the directions."""
        rows = min(rows, self.num_rows)
        return self.item * (rows + MOST_DIRECTIONS) * (self.num_features + self.num_inputs) + 36 * rows * rows

    @property
    def normal_equations(self) -> int:
        """The covariance in float64, its eigenvectors and their workspace; 2,048 rows of features, thrice."""
        D = self.num_features
        return 8 * 5 * D * D + 3 * self.item * min(2048, self.num_rows) * D

    @property
    def residuals(self) -> int:
        """Of every row, and 2,048 rows of features, thrice."""
        return self.item * (self.num_rows * self.num_outputs + 3 * min(2048, self.num_rows) * self.num_features)

    def metric(self, num_landmarks: int) -> int:
        """Least squares on those landmarks, 256 rows of it with gradients, blocks of heldout rows, and the rows where
        not all are taken."""
        taken = 0 if self.num_rows <= METRIC_ROWS else METRIC_ROWS * self.row_bytes
        gradients = 6 * self.item * GRADIENT_ROWS * num_landmarks
        judged = 3 * self.item * TILE
        return replace(self, num_features=num_landmarks).landmarks + gradients + judged + taken

    @property
    def landmarks(self) -> int:
        """Landmarks; K_mm, its root and the preconditioner in float64; a block of K_nm in the making."""
        m = min(self.num_features, self.num_rows)
        block = 5 * 8 * min(TILE // 2, self.num_rows * m)
        return 8 * m * (5 * m + 3 * self.num_inputs + 8 * self.num_outputs) + block


@dataclass(frozen=True)
class MemoryPlan:
    """Rows that main directions are found from, and bytes to keep parts of K_nm in: for the solver, and before it for
    learning a metric, with the landmarks that there is room for."""

    preconditioner_rows: int
    spare: int
    metric_landmarks: int = METRIC_LANDMARKS
    metric_spare: int = SPARE


def plan_memory(
    budget: int | None, sizes: Sizes, *, solver: str, precondition: bool = True, adapt: bool = False
) -> MemoryPlan:
    """Divide `budget` over what a fit holds beside the user's own arrays; refuse one that is too small."""
    preconditioner_rows = _direction_rows(sizes.num_rows)
    if budget is None:
        return MemoryPlan(preconditioner_rows, SPARE)
    always = OVERHEAD + sizes.rows
    base = always + max(sizes.rule, _solver_bytes(sizes, solver))
    if solver == "sgd" and precondition:
        preconditioner_rows = _largest(
            preconditioner_rows, FEWEST_DIRECTION_ROWS, sizes.preconditioner_rank, budget - base
        )
        base += sizes.preconditioner_rank(preconditioner_rows)
    landmarks = METRIC_LANDMARKS
    if adapt:
        landmarks = _largest(METRIC_LANDMARKS, FEWEST_METRIC_LANDMARKS, sizes.metric, budget - always)
        base = max(base, always + sizes.metric(landmarks))
    if base > budget:
        needed = max(base, _with_buffer(base - sizes.buffer)) // 2**20 + 1
        raise ValueError(
            f"memory_budget must be at least {needed}MB for solver={solver!r} with {sizes.num_features} features or "
            f"landmarks and shards of {sizes.shard_rows} rows, got {budget / 2**20:.1f}MB; give more, "
            f"fewer num_features{'' if solver == 'sgd' else ', solver=' + repr('sgd')}, or a source of smaller shards."
        )
    return MemoryPlan(preconditioner_rows, budget - base, landmarks, budget - always - sizes.metric(landmarks))


def _direction_rows(num_rows: int) -> int:
    """A part of the rows, such that their Gram matrix costs less than an epoch."""
    return min(MOST_DIRECTION_ROWS, max(512, num_rows // 32))


def _largest(most: int, fewest: int, size: Callable[[int], int], room: int) -> int:
    """`most`, or what is left of it after halving until it fits the room."""
    while most > fewest and size(most) > room:
        most //= 2
    return most


def _with_buffer(rest: int) -> int:
    """A budget with room for `rest` and for the buffer that `rows_per_shard` would make of it."""
    return min(rest + LARGEST_BUFFER, rest * 8 // 7 + BUFFERED_SHARDS * 2**16)


def _solver_bytes(sizes: Sizes, solver: str) -> int:
    match solver:
        case "landmarks" | "newton":
            return sizes.landmarks
        case "ridge":
            return sizes.features + sizes.normal_equations
        case "saga":
            return sizes.features + sizes.residuals
        case _:
            return sizes.features
