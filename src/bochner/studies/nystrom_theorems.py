"""Theorems 4 to 7 of May 2018 and the corollaries of its Section 6.1, checked numerically.

X is one of n given points, each with probability 1/n, so that all expectations are finite sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from bochner.features import NystromMap
from bochner.kernels import Gaussian
from bochner.report import Page
from bochner.studies import costs
from bochner.studies.findings import Criterion, Decision, Finding, by
from bochner.studies.nystrom_rff import ALL_SETS, make_kernel
from bochner.studies.nystrom_rff_data import FILES, loader
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

ROUNDING = 1e-6
BALLS, IN_BALL = 50, 20
# The steepest secant of 1 - exp(-s^2 / 2) from 0, times the bandwidth: May's C for the Gaussian kernel.
STEEPEST = max((1 - math.exp(-s * s / 2)) / s for s in (0.001 * step for step in range(1000, 2200)))


@dataclass(frozen=True)
class Cell:
    """A theorem on `num_points` points of a data set and `num_landmarks` landmarks, chosen among them by `rule`."""

    theorem: str
    data: str
    num_points: int
    num_landmarks: int
    rule: str
    seed: int


class Setup(NamedTuple):
    """Points X [n, d] and the map from landmarks among them, in float64, with the kernel matrix K [n, n]."""

    X: Tensor
    K: Tensor
    z: NystromMap

    @property
    def gaps(self) -> Tensor:
        """k(x, x) - ||z(x)||^2 of each point."""
        return self.K.diagonal() - self.z(self.X).square().sum(dim=1)


def projection(setup: Setup, generator: Generator) -> Result:
    """||z(x)||^2 <= k(x, x), and z(x) . z(l) = k(x, l) for landmarks l (Corollaries 1.2 and 1.3)."""
    z, L = setup.z, setup.z.landmarks
    wrong = float((z(setup.X) @ z(L).T - z.kernel(setup.X, L)).abs().max())
    least = float(setup.gaps.min())
    return {"left": least, "right": 0.0, "holds": least > -ROUNDING and wrong < 1e-3, "error_at_landmarks": wrong}


def ball(setup: Setup, generator: Generator) -> Result:
    """Theorem 4: with e half of k(x, x) - ||z(x)||^2, all y with |x - y| < (gap - e) / (C (m / lambda_r + 1)) have
    k(x, y) - z(x) . z(y) > e.

    `left` is the minimum of (k - z.z) / e over points y in such balls, `right` is 1.
    """
    z, kernel = setup.z, setup.z.kernel
    assert isinstance(kernel, Gaussian)
    smallest = float(z.normalization.square().sum(dim=0).max()) ** -1  # columns are u_j / sqrt(lambda_j)
    chosen = torch.randperm(len(setup.X), generator=generator)[:BALLS]
    x, half = setup.X[chosen], setup.gaps[chosen].clamp_min(0) / 2
    radius = half / (STEEPEST / kernel.bandwidth * (len(z.landmarks) / smallest + 1))
    directions = torch.randn(len(x), IN_BALL, x.shape[1], generator=generator, dtype=x.dtype).to(x.device)
    lengths = torch.rand(len(x), IN_BALL, 1, generator=generator, dtype=x.dtype).to(x.device)
    y = x[:, None] + radius[:, None, None] * lengths * directions / directions.norm(dim=2, keepdim=True)
    k = torch.stack([kernel(a[None], b)[0] for a, b in zip(x, y, strict=True)])
    errors = k - (z(x)[:, None] * z(y.flatten(0, 1)).view(*y.shape[:2], -1)).sum(dim=2)
    far = half > ROUNDING  # otherwise both sides are rounding errors
    least = float((errors[far] / half[far, None]).min()) if bool(far.any()) else math.inf
    return {"left": least, "right": 1.0, "holds": least > 1, "radius": float(radius.median())}


def tail(setup: Setup, generator: Generator) -> Result:
    """Theorem 5: E[k(X, X) - ||z(X)||^2] >= the sum of all but the m first eigenvalues of the centred kernel."""
    left, right = float(setup.gaps.mean()), centred_tail(setup.K, len(setup.z.landmarks))
    return {"left": left, "right": right, "holds": left >= right - ROUNDING}


def probability(setup: Setup, generator: Generator) -> Result:
    """Theorem 6: P[k(X, X) - ||z(X)||^2 >= e] >= 1 - exp(-2 (R - e)^2), R the tail of Theorem 5, at five e <= R.

    `left` and `right` are those of the e at which they are closest.
    """
    R, gaps = centred_tail(setup.K, len(setup.z.landmarks)), setup.gaps
    sides = [
        (float((gaps >= share * R - ROUNDING).double().mean()), 1 - math.exp(-2 * (R - share * R) ** 2))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    left, right = min(sides, key=lambda side: side[0] - side[1])
    return {"left": left, "right": right, "holds": left >= right}


def bias(setup: Setup, generator: Generator) -> Result:
    """Theorem 7: E[k(X, Y) - z(X) . z(Y)] = ||mu_perp||^2, the squared distance of the mean map from their span.

    `left` sums over all pairs; `right` is the least squares distance, by the landmarks' kernel matrix alone.
    """
    L, Z = setup.z.landmarks, setup.z(setup.X)
    left = float((setup.K - Z @ Z.T).mean())
    beside, among = setup.z.kernel(L, setup.X).mean(dim=1), setup.z.kernel(L)
    weights = torch.linalg.lstsq(among, beside[:, None], driver="gelsd").solution.squeeze(1)
    right = float(setup.K.mean() - 2 * weights @ beside + weights @ among @ weights)
    return {
        "left": left,
        "right": right,
        "holds": abs(left - right) < 1e-3 * abs(right) + ROUNDING and right > -ROUNDING,
    }


THEOREMS: Mapping[str, Callable[[Setup, Generator], Result]] = MappingProxyType(
    {"corollaries 1.2, 1.3": projection, "4": ball, "5": tail, "6": probability, "7": bias}
)


def centred_tail(K: Tensor, num_first: int) -> float:
    """The sum of all but the first eigenvalues of H K H / n, H = I - 1/n."""
    centred = K - K.mean(dim=0) - K.mean(dim=1, keepdim=True) + K.mean()
    values = torch.linalg.eigvalsh(centred / len(K)).flip(0)
    return float(values[num_first:].clamp_min(0).sum())


def cells(size: Size) -> list[Cell]:
    sets, num_points, landmarks, seeds = {
        "smoke": (("digits", "cpu"), 300, (20, 100), range(1)),
        "small": (ALL_SETS, 1_000, (30, 100, 300), range(3)),
        "paper": (ALL_SETS, 5_000, (100, 300, 1_000), range(10)),
    }[size]
    return [
        Cell(theorem, name, num_points, count, rule, seed)
        for name in sets for theorem in THEOREMS for count in landmarks for rule in ("uniform", "kmeans")
        for seed in seeds
    ]  # fmt: skip


def prepare(context: Context) -> Callable[[Cell], Result]:
    load = loader(context)

    def measure(cell: Cell) -> Result:
        X = load(cell.data, cell.num_points).train.X.double()
        generator = Generator().manual_seed(cell.seed)
        kernel = make_kernel(cell.data, "gaussian", X)
        z = NystromMap.fit(kernel, X, num_landmarks=cell.num_landmarks, landmarks=cell.rule, generator=generator)
        return THEOREMS[cell.theorem](Setup(X, kernel(X), z), generator)

    return measure


def show(page: Page, rows: Sequence[Row]) -> None:
    lines = []
    for (theorem, name), group in by(rows, "theorem", "data").items():
        held = sum(bool(row["holds"]) for row in group)
        nearest = min(group, key=lambda row: row["left"] - row["right"])
        lines.append([theorem, name, f"{held} of {len(group)}", nearest["left"], nearest["right"]])
    page.table(["theorem", "set", "held", "left side, where closest", "right side"], lines)
    page.note(
        "Corollaries: minimum of k(x, x) - ||z||^2, at least 0. 4: minimum of (k - z.z) / e in the ball, > 1. 5: mean "
        "of k(x, x) - ||z||^2 against the tail of the centred spectrum. 6: probability against its bound. 7: mean "
        "error over all pairs against the squared distance of the mean map."
    )


MAY = "May 2018"
STUDY = Study(
    "nystrom-theorems", "Theorems 4 to 7 in numbers", f"{MAY}, Sections 6.1 and 6.3",
    "Gaussian kernel; expectations are over the n points themselves, each with probability 1 / n; float64.",
    "nystrom_theorems", Cell, cells, prepare, show, FILES,
    operations=lambda cell: costs.CELL + 20.0 * cell.num_points**2 * (cell.num_landmarks + 100),
)  # fmt: skip


def holds(theorem: str) -> Criterion:
    """Whether a theorem holds in all cases."""

    def decide(rows: Sequence[Row]) -> Decision | None:
        cases = [row for row in rows if row["theorem"] == theorem]
        held = sum(bool(row["holds"]) for row in cases)
        sets = len({row["data"] for row in cases})
        return Decision(held == len(cases), f"held in {held} of {len(cases)} cases on {sets} sets") if cases else None

    return decide


_CLAIMS = {
    "corollaries 1.2, 1.3": "A Nystrom map is a projection: norms do not grow, landmarks are exact.",
    "4": "Around every point with an error lies a ball of underestimates.",
    "5": "The expected error at k(x, x) is at least the tail of the centred spectrum.",
    "6": "The probability of an error at k(x, x) has a lower bound.",
    "7": "The mean error is the squared distance of the mean map from the landmarks' span.",
}
FINDINGS = tuple(
    Finding(
        claim,
        f"{MAY}, {'Corollaries 1.2 and 1.3' if ',' in theorem else f'Theorem {theorem}'}",
        STUDY.name,
        holds(theorem),
        exact=True,
    )
    for theorem, claim in _CLAIMS.items()
)
