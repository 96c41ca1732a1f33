"""Sparse Random Features: draw features, solve an l1/l2-penalised problem, drop features with zero weights, repeat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Generator, Tensor
from tqdm import tqdm

from bochner import checks
from bochner.adaptation.fobos import MAX_TRIALS, search_penalty
from bochner.adaptation.selection import DrawMap, Selection, largest, replace_features
from bochner.data.blocks import BlockSource, Source, sample_rows
from bochner.features import FourierMap
from bochner.models.losses import Loss, choose_loss
from bochner.ops import TILE_ELEMENTS, row_tiles
from bochner.solvers.rows import Tile, read_encoded

# A round solves its problem in tens of passes over the rows, and the search for the penalty takes several such solves.
MAX_ROWS = 2**16
# A solve ends at this norm of a subgradient, relative to the gradient's norm at 0, or after so many passes.
TOLERANCE = 1e-2
MAX_ITERATIONS = 200
SLACK = 1.25  # a penalty that leaves up to a quarter too many is accepted: those of smallest norm are dropped
# The largest eigenvalue of the second moment, by power iteration on some rows. The margin covers that this is a lower
# bound and varies with the rows; a step that still increases the objective is halved.
SPREAD_ROWS, SPREAD_ROUNDS, SPREAD_MARGIN = 2048, 20, 1.2
CACHED_ELEMENTS = 2**26  # up to this size, 256 MiB, the features of all rows are kept for the passes of a round


class Solution(NamedTuple):
    """Weights [t, F] of the features phi_j, biases [t], and the minimum."""

    weights: Tensor
    bias: Tensor
    objective: float


@dataclass
class SparseSelection(Selection):
    """The selected map, and the penalty and the minimum of each round but the last."""

    penalties: list[float] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)


def select_sparse(
    draw: DrawMap,
    source: Source,
    *,
    loss: str,
    num_classes: int | None,
    num_features: int,
    rounds: int = 10,
    num_rows: int = MAX_ROWS,
    penalty: float | str = "auto",
    generator: Generator,
    verbose: bool | None = None,
) -> SparseSelection:
    """Sparse Random Features: T rounds of coordinate descent in the space of all features.

    With A the D = `num_features` current features, each round solves, on `num_rows` random rows (`fit_sparse`),

        min over W, b   mean_i loss(y_i, sum_{j in A} theta_j phi_j(x_i) + b) + penalty * sum_{j in A} ||theta_j||,

    drops the frequencies with theta_j = 0 and draws new ones in their place. theta_j holds the weights of frequency j
    for all outputs, of both its sine and cosine: for one output in the cosine form this is the l1 norm of the paper. A
    round starts from the solution of the previous one. The last round only draws. With a number as `penalty` this is
    the paper's algorithm: the minimum falls from round to round, and the data decide how many features are kept.
    Penalty "auto" searches in round t for one that leaves the D t / T features of `select_features`, or up to a quarter
    more.
    O(passes R D (d + t)) for R rows and tens of passes per solve, O(R d) memory and a tile of features.
    Source: Yen et al. 2014, Algorithm 1; the l1/l2 norm for several outputs, May 2018, Section 1.3.

    >>> from bochner.data import ArraySource
    >>> from bochner.kernels import Laplacian
    >>> X = torch.randn(1000, 10, generator=Generator().manual_seed(0))
    >>> source = ArraySource(X, (X[:, 0] * X[:, 1] > 0).long())  # eight of ten inputs carry no information
    >>> def draw(num_features, generator):
    ...     return FourierMap.draw(
    ...         Laplacian(bandwidth=10.0), num_inputs=10, num_features=num_features, generator=generator
    ...     )
    >>> chosen = select_sparse(
    ...     draw,
    ...     source,
    ...     loss="softmax",
    ...     num_classes=2,
    ...     num_features=128,
    ...     rounds=4,
    ...     generator=Generator().manual_seed(0),
    ...     verbose=False,
    ... )
    >>> chosen.feature_map.num_features, chosen.objectives[-1] < chosen.objectives[0]
    (128, True)
    """
    checks.positive_int("num_features", num_features)
    checks.positive_int("rounds", rounds)
    if isinstance(penalty, str):
        checks.one_of("penalty", penalty, ["auto"])
    chosen_loss = choose_loss(loss, num_classes)
    z = draw(num_features, generator)
    P, device = z.num_frequencies, next(z.parameters()).device
    if rounds > P:
        raise ValueError(f"rounds must be at most {P}, the number of frequencies: each keeps one more. Got {rounds}.")
    block = sample_rows(source, checks.positive_int("num_rows", num_rows), generator=generator)
    rows = Tile(*(part.to(device) for part in read_encoded(BlockSource(block), 0, num_classes=num_classes)))
    selection, solution = SparseSelection(z, torch.ones(P, dtype=torch.long), [P]), None
    steps = range(1, rounds)
    for t in tqdm(steps, desc="selection", unit="round", disable=None if verbose is None else not verbose):
        problem = SparseProblem(selection.feature_map, rows, chosen_loss)
        if isinstance(penalty, str):
            count = P * t // rounds
            solution = _fit_count(problem, count, solution, selection.penalties)
        else:
            solution = fit_sparse(problem, penalty=penalty, start=solution)
            count = int((problem.norms(solution.weights) > 0).sum())
            selection.penalties.append(penalty)
        selection.objectives.append(solution.objective)
        if count == P:  # no feature was dropped
            break
        keep = largest(problem.norms(solution.weights), count)
        replace_features(selection, keep, draw((P - count) * num_features // P, generator), t)
        # the kept frequencies come first now, and new ones have weights 0
        blocks = solution.weights.reshape(len(solution.bias), -1, P)[:, :, keep]
        weights = torch.nn.functional.pad(blocks, (0, P - count)).reshape(solution.weights.shape)
        solution = solution._replace(weights=weights)
    return selection


class SparseProblem:
    """mean_i w_i loss(y_i, W phi(x_i) + b) on `rows`, phi = sqrt(P) z for the P frequencies of z: features of a size
    that does not depend on their number."""

    def __init__(self, z: FourierMap, rows: Tile, loss: Loss) -> None:
        self.z, self.rows, self.loss = z, rows, loss
        self.targets = loss.targets(rows.targets)
        mean = rows.weight @ rows.targets / rows.weight.sum()
        bias = loss.offset(mean)
        self.zero = Solution(rows.X.new_zeros(len(bias), z.num_features), bias, math.inf)
        self._cached: list[Tensor] | None = None
        if len(rows.X) * z.num_features <= CACHED_ELEMENTS:
            self._cached = [self._features(tile) for tile in self._tiles()]
        self.gradient = self.derivatives(self.zero.weights, bias)[0]
        self.step = 1 / (SPREAD_MARGIN * loss.smoothness * self._spread())

    def derivatives(self, W: Tensor, b: Tensor) -> tuple[Tensor, Tensor, float]:
        """The derivatives of the mean loss in W [t, F] and b [t], and its value. O(R F (d + t)) for R rows."""
        gradient, slope, value = torch.zeros_like(W), torch.zeros_like(b), 0.0
        for place, tile in enumerate(self._tiles()):
            phi = self._features(tile) if self._cached is None else self._cached[place]
            scores, targets, weight = phi @ W.T + b, self.targets[tile], self.rows.weight[tile]
            residual = self.loss.residual(scores, targets) * weight[:, None]
            gradient += residual.T @ phi
            slope += residual.sum(dim=0)
            value += float((self.loss.value(scores, targets) * weight).sum())
        count = len(self.rows.X)
        return gradient / count, slope / count, value / count

    def norms(self, weights: Tensor) -> Tensor:
        """||theta_j|| [P] for weights [t, F], F = P, or 2 P for pairs of a cosine and a sine."""
        return weights.reshape(len(weights), -1, self.z.num_frequencies).norm(dim=(0, 1))

    def shrink(self, weights: Tensor, amount: float) -> Tensor:
        """theta_j max(0, 1 - amount / ||theta_j||), the proximal step of amount * sum_j ||theta_j||."""
        norms = self.norms(weights)
        factors = (1 - amount / norms.clamp_min(torch.finfo(norms.dtype).tiny)).clamp_min(0)
        return weights * factors.repeat(weights.shape[1] // len(factors))

    def _tiles(self) -> Iterator[slice]:
        return row_tiles(len(self.rows.X), row_elements=self.z.num_features, tile_elements=TILE_ELEMENTS)

    def _features(self, tile: slice) -> Tensor:
        return self.z(self.rows.X[tile]) * math.sqrt(self.z.num_frequencies)

    def _spread(self) -> float:
        """The largest eigenvalue of mean_i w_i [phi_i, 1] [phi_i, 1]^T, on some rows."""
        some = slice(0, None, -(-len(self.rows.X) // SPREAD_ROWS))
        phi = torch.nn.functional.pad(self._features(some), (0, 1), value=1.0)
        phi = phi * (self.rows.weight[some, None] / len(phi)).sqrt()
        vector = phi.sum(dim=0)
        for _ in range(SPREAD_ROUNDS):
            vector = phi.T @ (phi @ (vector / vector.norm()))
        return float(vector.norm())


def fit_sparse(
    problem: SparseProblem,
    *,
    penalty: float,
    start: Solution | None = None,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> Solution:
    """The minimum of the problem's mean loss + penalty * sum_j ||theta_j||, by accelerated proximal gradients.

    Ends when the gradient mapping has fallen to `tolerance` times the gradient's norm at W = 0, or after
    `max_iterations` passes over the rows. Source: Beck & Teboulle 2009; O'Donoghue & Candes 2015 for the restarts.
    """
    checks.nonnegative_float("penalty", penalty)
    W, b, _ = start or problem.zero
    limit, step = tolerance * float(problem.gradient.norm()), problem.step
    first_W, first_b, first = W, b, math.inf
    V, c, momentum = W, b, 1.0
    for iteration in range(max_iterations):
        gradient, slope, value = problem.derivatives(V, c)
        objective = value + penalty * float(problem.norms(V).sum())
        first = objective if iteration == 0 else first
        if not objective <= 2 * first:  # the step is too long for these rows; also for NaN
            W, b, V, c, momentum, step = first_W, first_b, first_W, first_b, 1.0, step / 2
            continue
        new_W, new_b = problem.shrink(V - step * gradient, step * penalty), c - step * slope
        change = math.hypot(float((V - new_W).norm()), float((c - new_b).norm())) / step
        turned = float(((V - new_W) * (new_W - W)).sum() + ((c - new_b) * (new_b - b)).sum()) > 0
        following = 1.0 if turned else (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        factor = 0.0 if turned else (momentum - 1) / following
        V, c = new_W + factor * (new_W - W), new_b + factor * (new_b - b)
        W, b, momentum = new_W, new_b, following
        if change <= limit:
            break
    return Solution(W, b, problem.derivatives(W, b)[2] + penalty * float(problem.norms(W).sum()))


def _fit_count(problem: SparseProblem, count: int, start: Solution | None, penalties: list[float]) -> Solution:
    """The solution at the largest penalty tried that leaves `count` frequencies, which is appended to `penalties`.

    Each solve starts from the previous solution.
    """
    solutions = {}

    def norms_after(penalty: float) -> Tensor:
        nonlocal start
        start = solutions[penalty] = fit_sparse(problem, penalty=penalty, start=start)
        return problem.norms(start.weights)

    # the first penalty is one at which a single step from 0 leaves as many
    first = penalties[-1] if penalties else float(problem.norms(problem.gradient).topk(count).values[-1])
    penalty = search_penalty(norms_after, count, start=first, max_trials=MAX_TRIALS, slack=SLACK, verbose=False)[0]
    penalties.append(penalty)
    return solutions[penalty]
