"""Theorems 4 to 7 and the corollaries of Section 6.1, checked by numbers.

The distribution of X is that of n given points, each with probability 1/n: all expectations are finite sums.
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
from bochner.studies.findings import Verdict, by
from bochner.studies.ledger import Result
from bochner.studies.nystrom_rff.cells import make_kernel
from bochner.studies.nystrom_rff.tasks import loader
from bochner.studies.study import Row, Size, Where

ROUNDING = 1e-6
BALLS, IN_BALL = 50, 20
# The steepest secant of 1 - exp(-s^2 / 2) from 0, times the bandwidth: May's C for the Gaussian kernel.
STEEPEST = max((1 - math.exp(-s * s / 2)) / s for s in (0.001 * step for step in range(1000, 2200)))


@dataclass(frozen=True)
class Cell:
    """A theorem on `num_points` points of a set, with so many landmarks among them by some rule."""

    theorem: str
    data: str
    num_points: int
    num_landmarks: int
    rule: str
    seed: int


class Seen(NamedTuple):
    """Points X [n, d] and the map from landmarks among them, in float64, with the kernel matrix K [n, n]."""

    X: Tensor
    K: Tensor
    z: NystromMap

    @property
    def gaps(self) -> Tensor:
        """k(x, x) - ||z(x)||^2 of each point."""
        return self.K.diagonal() - self.z(self.X).square().sum(dim=1)


def projection(seen: Seen, generator: Generator) -> Result:
    """||z(x)||^2 <= k(x, x), and z(x) . z(l) = k(x, l) for landmarks l (Corollaries 1.2 and 1.3)."""
    z, L = seen.z, seen.z.landmarks
    wrong = float((z(seen.X) @ z(L).T - z.kernel(seen.X, L)).abs().max())
    least = float(seen.gaps.min())
    return {"left": least, "right": 0.0, "holds": least > -ROUNDING and wrong < 1e-3, "error_at_landmarks": wrong}


def ball(seen: Seen, generator: Generator) -> Result:
    """Theorem 4: with e half of k(x, x) - ||z(x)||^2, all y with |x - y| < (gap - e) / (C (m / lambda_r + 1)) have
    k(x, y) - z(x) . z(y) > e.

    `left` is the least of (k - z.z) / e over points y in such balls, `right` is 1.
    """
    z, kernel = seen.z, seen.z.kernel
    assert isinstance(kernel, Gaussian)
    smallest = float(z.normalization.square().sum(dim=0).max()) ** -1  # columns are u_j / sqrt(lambda_j)
    chosen = torch.randperm(len(seen.X), generator=generator)[:BALLS]
    x, half = seen.X[chosen], seen.gaps[chosen].clamp_min(0) / 2
    radius = half / (STEEPEST / kernel.bandwidth * (len(z.landmarks) / smallest + 1))
    ways = torch.randn(len(x), IN_BALL, x.shape[1], generator=generator, dtype=x.dtype).to(x.device)
    lengths = torch.rand(len(x), IN_BALL, 1, generator=generator, dtype=x.dtype).to(x.device)
    y = x[:, None] + radius[:, None, None] * lengths * ways / ways.norm(dim=2, keepdim=True)
    k = torch.stack([kernel(a[None], b)[0] for a, b in zip(x, y, strict=True)])
    errors = k - (z(x)[:, None] * z(y.flatten(0, 1)).view(*y.shape[:2], -1)).sum(dim=2)
    far = half > ROUNDING  # else both sides are rounding
    least = float((errors[far] / half[far, None]).min()) if bool(far.any()) else math.inf
    return {"left": least, "right": 1.0, "holds": least > 1, "radius": float(radius.median())}


def tail(seen: Seen, generator: Generator) -> Result:
    """Theorem 5: E[k(X, X) - ||z(X)||^2] >= the sum of all but the m first eigenvalues of the centred kernel."""
    left, right = float(seen.gaps.mean()), centred_tail(seen.K, len(seen.z.landmarks))
    return {"left": left, "right": right, "holds": left >= right - ROUNDING}


def probability(seen: Seen, generator: Generator) -> Result:
    """Theorem 6: P[k(X, X) - ||z(X)||^2 >= e] >= 1 - exp(-2 (R - e)^2), R the tail of Theorem 5, at five e <= R.

    `left` and `right` are those of the e at which they are nearest.
    """
    R, gaps = centred_tail(seen.K, len(seen.z.landmarks)), seen.gaps
    sides = [
        (float((gaps >= share * R - ROUNDING).double().mean()), 1 - math.exp(-2 * (R - share * R) ** 2))
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    left, right = min(sides, key=lambda side: side[0] - side[1])
    return {"left": left, "right": right, "holds": left >= right}


def bias(seen: Seen, generator: Generator) -> Result:
    """Theorem 7: E[k(X, Y) - z(X) . z(Y)] = ||mu_perp||^2, the squared distance of the mean map from their span.

    `left` sums over all pairs; `right` is the least squares distance, by the landmarks' kernel matrix alone.
    """
    L, Z = seen.z.landmarks, seen.z(seen.X)
    left = float((seen.K - Z @ Z.T).mean())
    beside, among = seen.z.kernel(L, seen.X).mean(dim=1), seen.z.kernel(L)
    weights = torch.linalg.lstsq(among, beside[:, None], driver="gelsd").solution.squeeze(1)
    right = float(seen.K.mean() - 2 * weights @ beside + weights @ among @ weights)
    return {
        "left": left,
        "right": right,
        "holds": abs(left - right) < 1e-3 * abs(right) + ROUNDING and right > -ROUNDING,
    }


THEOREMS: Mapping[str, Callable[[Seen, Generator], Result]] = MappingProxyType(
    {"corollaries 1.2, 1.3": projection, "4": ball, "5": tail, "6": probability, "7": bias}
)


def centred_tail(K: Tensor, num_first: int) -> float:
    """The sum of all but the first eigenvalues of H K H / n, H = I - 1/n."""
    centred = K - K.mean(dim=0) - K.mean(dim=1, keepdim=True) + K.mean()
    values = torch.linalg.eigvalsh(centred / len(K)).flip(0)
    return float(values[num_first:].clamp_min(0).sum())


def cells(size: Size) -> list[Cell]:
    sets, num_points, landmarks, seeds = {
        "smoke": (("digits", "cpu"), 300, (20, 100), (0,)),
        "small": (("a9a", "covtype", "cpu", "house", "mnist", "timit"), 1_000, (30, 100, 300), (0, 1, 2)),
        "paper": (("a9a", "covtype", "cpu", "house", "mnist", "timit"), 5_000, (100, 300, 1_000), tuple(range(10))),
    }[size]
    return [
        Cell(theorem, name, num_points, count, rule, seed)
        for name in sets for theorem in THEOREMS for count in landmarks for rule in ("uniform", "kmeans")
        for seed in seeds
    ]  # fmt: skip


def measuring(where: Where) -> Callable[[Cell], Result]:
    loaded = loader(where)

    def measure(cell: Cell) -> Result:
        X = loaded(cell.data, cell.num_points).train.X.double()
        generator = Generator().manual_seed(cell.seed)
        kernel = make_kernel(cell.data, "gaussian", X)
        z = NystromMap.fit(kernel, X, num_landmarks=cell.num_landmarks, landmarks=cell.rule, generator=generator)
        return THEOREMS[cell.theorem](Seen(X, kernel(X), z), generator)

    return measure


def show(page: Page, rows: Sequence[Row]) -> None:
    found = []
    for (theorem, name), mine in by(rows, "theorem", "data").items():
        held = sum(bool(row["holds"]) for row in mine)
        nearest = min(mine, key=lambda row: row["left"] - row["right"])
        found.append([theorem, name, f"{held} of {len(mine)}", nearest["left"], nearest["right"]])
    page.table(["theorem", "set", "held", "left side, where nearest", "right side"], found)
    page.note(
        "Corollaries: least k(x, x) - ||z||^2 against 0. 4: least of (k - z.z) / e in the ball, against 1. 5: mean of "
        "k(x, x) - ||z||^2 against the tail of the centred spectrum. 6: probability against its bound. 7: mean error "
        "over all pairs against the squared distance of the mean map."
    )


def holds(theorem: str) -> Callable[[Sequence[Row]], Verdict | None]:
    def judge(rows: Sequence[Row]) -> Verdict | None:
        mine = [row for row in rows if row["theorem"] == theorem]
        held = sum(bool(row["holds"]) for row in mine)
        sets = len({row["data"] for row in mine})
        return Verdict(held == len(mine), f"held in {held} of {len(mine)} cases on {sets} sets") if mine else None

    return judge
