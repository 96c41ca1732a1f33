"""The point sets of the thesis, as files of arrays have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor


@dataclass(frozen=True)
class PointSet:
    """Where its points are, and what the thesis does with them (Tables 5.9 and B.1).

    `samples` is |Omega| in units of n log n; `drawn` points are drawn anew by each seed; "unit" scaling is mean 0 and
    variance 1, of the targets too.
    """

    name: str
    file: str
    inputs: str
    num_points: int
    bandwidth: float
    rank: int = 100
    samples: float | None = None
    rounds: int = 3
    targets: str | None = None
    unit: bool = False
    drawn: int | None = None
    ridge: float | None = None
    ridge_bandwidth: float | None = None

    @property
    def tuned(self) -> float:
        """The bandwidth of Table 5.13."""
        return self.bandwidth if self.ridge_bandwidth is None else self.ridge_bandwidth


class Points(NamedTuple):
    """X [n, d] and y [n] in float64."""

    X: Tensor
    y: Tensor


_ALL = (
    PointSet("ijcnn1 small", "ijcnn1.npz", "X_train", 1000, 1.06, rank=50, samples=49, drawn=1000),
    PointSet("german", "german_numer.npz", "X_scale", 1000, 3.25, rank=50, samples=49),
    PointSet("satimage", "satimage_scale.npz", "X_train", 4435, 2.32, samples=102),
    PointSet("wine", "wine_quality.npz", "X", 6497, 32, samples=160, targets="y", ridge=0.0039),
    PointSet("cpusmall", "cpusmall.npz", "X", 8192, 2e6, samples=163, targets="y", ridge=1.5e-5),
    PointSet(
        "cadata scaled",
        "cadata.npz",
        "X",
        20640,
        4,
        rank=200,
        samples=430,
        rounds=4,
        targets="y",
        unit=True,
        ridge=0.0078,
        ridge_bandwidth=2,
    ),
    PointSet("ijcnn1 scaled", "ijcnn1.npz", "X_train", 49990, 4.70, rank=200, samples=387, rounds=5, unit=True),
    PointSet("wine scaled", "wine_quality.npz", "X", 6497, 1, targets="y", unit=True, ridge=0.5),
    PointSet("cpusmall scaled", "cpusmall.npz", "X", 8192, 8, targets="y", unit=True, ridge=2**-10),
)
SETS: Mapping[str, PointSet] = MappingProxyType({found.name: found for found in _ALL})


def load(name: str, data_dir: Path, *, seed: int) -> Points:
    """The points of a set; y is 0 where it has no targets."""
    chosen = SETS[name]
    path = data_dir / chosen.file
    if not path.exists():
        raise FileNotFoundError(f"data_dir: {path} does not exist; it must hold {chosen.inputs!r} of {name}.")
    with np.load(path) as arrays:
        X = torch.as_tensor(arrays[chosen.inputs]).double()
        y = torch.zeros(len(X)).double() if chosen.targets is None else torch.as_tensor(arrays[chosen.targets]).double()
    if chosen.unit:
        X, y = unit(X), y if chosen.targets is None else unit(y)
    if chosen.drawn is None:
        return Points(X, y)
    index = torch.randperm(len(X), generator=Generator().manual_seed(seed))[: chosen.drawn]
    return Points(X[index], y[index])


def unit(columns: Tensor) -> Tensor:
    """Mean 0 and variance 1 for each column.

    >>> unit(torch.tensor([1.0, 3.0]))
    tensor([-1.,  1.])
    """
    return (columns - columns.mean(dim=0)) / columns.std(dim=0, unbiased=False)
