"""Keeping a fit within a memory budget.

The byte models below count the large arrays that are alive at the same time in each phase of a fit. They were checked
against measured peaks (tests/search/test_memory.py): a fit stays below its budget, and a budget that is refused is too
small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from bochner.ops import TILE_ELEMENTS
from bochner.search.plan import BUFFERED_SHARDS, MAX_BUFFER_BYTES

MIN_PRECONDITIONER_ROWS, MAX_PRECONDITIONER_RANK = 64, 256
MIN_METRIC_LANDMARKS = 64
GRADIENT_ROWS = 256  # rows whose input gradients exist at once while a metric is learned
TRIAL_ROWS = 2048  # validation rows that learning rates are compared on
RULE_ROWS = 1000  # rows that a bandwidth rule uses
DEFAULT_CACHE = 2**30  # bytes for parts of K_nm where no budget is given
# Allocated besides what is counted: temporaries of blocks, thread stacks, memory that the allocator keeps.
OVERHEAD = 3 * 2**24


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine the memory of a fit.

    N rows in shards of at most `shard_rows`, d inputs, t outputs, D features or landmarks, bytes of a number, copies
    of the weights (those of the optimizer included), and whether the features are Nystrom features.
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
        """A row in the shuffling buffer: inputs, an 8-byte target and index, and its share of one-hot targets.

        One-hot targets of 32 bytes an output exist for one shard of eleven, hence 3 bytes.
        """
        return self.item * self.num_inputs + 16 + 3 * self.num_outputs

    @property
    def buffer(self) -> int:
        return BUFFERED_SHARDS * min(self.shard_rows, self.num_rows) * self.row_bytes

    @property
    def rows(self) -> int:
        """Five 8-byte arrays over all rows (order, targets, weights, two permutations), buffer, rows of trials."""
        return 40 * self.num_rows + 2 * min(TRIAL_ROWS, self.num_rows) * self.row_bytes + self.buffer

    @property
    def rule(self) -> int:
        """The rows of a bandwidth rule, also in float64, and their pairwise distances twice in float64."""
        rows = min(RULE_ROWS, self.num_rows)
        return rows * self.num_inputs * (3 * self.item + 16) + 16 * rows * rows

    @property
    def features(self) -> int:
        """A map while it is drawn; weights, gradients and copies; a block of features with its scores.

        Orthogonal frequencies need six d x D/2 matrices for their QR factorisation; Nystrom maps an
        eigendecomposition of K_mm.
        """
        d, D, t = self.num_inputs, self.num_features, self.num_outputs
        drawn = 4 * (2 * D * D + d * D) if self.has_landmarks else 6 * d * max(D // 2, d)
        rows_at_once = min(max(1, TILE_ELEMENTS // D), self.num_rows)
        block = min(TILE_ELEMENTS, self.num_rows * D) + rows_at_once * (2 * d + 12 * t)
        return self.item * (drawn + self.copies * t * D + block)

    def preconditioner(self, rows: int) -> int:
        """The sample's features, the eigenvectors, and its Gram matrix in two dtypes with room to factor it."""
        rows = min(rows, self.num_rows)
        return self.item * (rows + MAX_PRECONDITIONER_RANK) * (self.num_features + self.num_inputs) + 36 * rows * rows

    @property
    def normal_equations(self) -> int:
        """The D x D second moments in float64, eigenvectors and LAPACK's workspace; three copies of 2,048 rows."""
        D = self.num_features
        return 8 * 5 * D * D + 3 * self.item * min(2048, self.num_rows) * D

    @property
    def residuals(self) -> int:
        """SAGA's table of residuals of all rows, and three copies of 2,048 rows of features."""
        return self.item * (self.num_rows * self.num_outputs + 3 * min(2048, self.num_rows) * self.num_features)

    @property
    def landmarks(self) -> int:
        """Landmarks; K_mm, its factor and the preconditioner in float64; a block of K_nm with its temporaries."""
        m = min(self.num_features, self.num_rows)
        block = 5 * 8 * min(TILE_ELEMENTS // 2, self.num_rows * m)
        return 8 * m * (5 * m + 3 * self.num_inputs + 8 * self.num_outputs) + block

    @property
    def blocks(self) -> int:
        """All rows, gathered and as the model has them; iterates in float64; the matrix of a block and its factor.

        A tile of products with K and its temporaries.
        """
        n, block = self.num_rows, min(self.num_rows, max(512, min(8192, self.num_rows // 50 + 1)))
        gathered = 3 * self.item * n * (self.num_inputs + self.num_outputs + 1)
        return gathered + 8 * (8 * n * self.num_outputs + 5 * block * block) + 3 * self.item * TILE_ELEMENTS

    @property
    def descent(self) -> int:
        """Landmarks and twice as many rows with coefficients; matrices of two samples of 2,048 in float64 while their
        eigenvectors are computed; a block of K_nm with its temporaries."""
        m, sample = min(self.num_features, self.num_rows), min(2048, self.num_rows)
        rows = self.item * (5 * m + 12 * sample) * (self.num_inputs + 4 * self.num_outputs)
        images = self.item * (m + 2 * sample) * (sample // 16 + 1)
        return rows + images + 5 * 8 * sample * sample + 3 * self.item * min(2**24, min(8192, self.num_rows) * m)

    def metric(self, num_landmarks: int, num_rows: int) -> int:
        """Least squares on landmarks, gradients at 256 rows, blocks of validation rows, and sampled rows if any."""
        sampled = 0 if self.num_rows <= num_rows else num_rows * self.row_bytes
        gradients = 6 * self.item * GRADIENT_ROWS * num_landmarks
        validation = 3 * self.item * TILE_ELEMENTS
        return replace(self, num_features=num_landmarks).landmarks + gradients + validation + sampled

    def solver(self, name: str) -> int:
        """The arrays of one solver."""
        match name:
            case "landmarks" | "newton":
                return self.landmarks
            case "askotch":
                return self.blocks
            case "eigenpro":
                return self.descent
            case "ridge":
                return self.features + self.normal_equations
            case "saga":
                return self.features + self.residuals
            case _:
                return self.features


@dataclass(frozen=True)
class MemoryPlan:
    """How a budget is divided.

    `preconditioner_rows` bounds the rows of the preconditioner; `cache` is the memory for parts of K_nm while solving.
    The metric is learned before, on `metric_landmarks`, with its own `metric_cache`.
    """

    preconditioner_rows: int | None = None
    cache: int = DEFAULT_CACHE
    metric_landmarks: int | None = None
    metric_cache: int = DEFAULT_CACHE


def plan_memory(
    budget: int,
    sizes: Sizes,
    *,
    solver: str,
    preconditioner_rows: int = 0,
    metric: tuple[int, int] | None = None,
) -> MemoryPlan:
    """Divide `budget` bytes over the phases of a fit; a budget that is too small is an error that states the bytes
    needed.

    `preconditioner_rows` is 0 without a preconditioner; `metric` is (landmarks, rows) where one is learned.
    """
    always = OVERHEAD + sizes.rows
    needed = always + max(sizes.rule, sizes.solver(solver))
    if preconditioner_rows:
        room = budget - needed
        preconditioner_rows = _largest(preconditioner_rows, MIN_PRECONDITIONER_ROWS, sizes.preconditioner, room)
        needed += sizes.preconditioner(preconditioner_rows)
    landmarks, metric_cache = None, DEFAULT_CACHE
    if metric is not None:
        most, rows = metric
        landmarks = _largest(most, MIN_METRIC_LANDMARKS, lambda m: sizes.metric(m, rows), budget - always)
        metric_bytes = always + sizes.metric(landmarks, rows)
        metric_cache = max(0, budget - metric_bytes)
        needed = max(needed, metric_bytes)
    if needed > budget:
        # the buffer depends on the budget, so the smallest sufficient budget has another buffer
        rest = needed - sizes.buffer
        enough = min(rest + MAX_BUFFER_BYTES, rest * 8 // 7 + BUFFERED_SHARDS * 2**16)
        raise ValueError(
            f"memory_budget must be at least {max(needed, enough) // 2**20 + 1}MB for solver={solver!r} with "
            f"n_components={sizes.num_features} and shards of {sizes.shard_rows} rows, got {budget / 2**20:.1f}MB; "
            f"increase it, lower n_components{'' if solver == 'sgd' else ', use solver=' + repr('sgd')}, or read "
            "smaller shards."
        )
    return MemoryPlan(preconditioner_rows or None, budget - needed, landmarks, metric_cache)


def _largest(most: int, fewest: int, size: Callable[[int], int], room: int) -> int:
    """`most`, halved until its size fits the room."""
    while most > fewest and size(most) > room:
        most //= 2
    return most
