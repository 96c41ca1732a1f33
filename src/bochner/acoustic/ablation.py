"""The papers' whole grid of models, to see what each ingredient is worth."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from bochner.acoustic.settings import KERNELS, KernelSettings, ModelSettings, NetworkSettings, SelectionSettings


@dataclass(frozen=True, kw_only=True)
class AblationSizes:
    """How large the models of the grid are: features and bottleneck of kernels, `depth` layers of `widths` units."""

    num_features: int = 8192
    rank: int = 100
    rounds: int = 10
    widths: tuple[int, ...] = (1000, 2000, 4000)
    depth: int = 4


def ablation(sizes: AblationSizes) -> dict[str, ModelSettings]:
    """{Laplacian, Gaussian, sparse Gaussian} x selection x bottleneck x {CE, ERLL}, and networks of each width x the
    same two tricks, by name.

    Source: May et al. 2019, Tables 2 to 6.

    >>> grid = ablation(AblationSizes(widths=(1000,)))
    >>> len(grid), list(grid)[:3]
    (28, ['laplacian', 'laplacian erll', 'laplacian bottleneck'])
    """
    return _kernels(sizes) | _networks(sizes)


def _kernels(sizes: AblationSizes) -> dict[str, ModelSettings]:
    grid: dict[str, ModelSettings] = {}
    for kernel, selects, has_rank, erll in product(KERNELS, (False, True), (False, True), (False, True)):
        name = " ".join([kernel, *["selection"] * selects, *_words(has_rank, erll)])
        settings = {"kernel": kernel, "num_features": sizes.num_features, **_tricks(sizes, has_rank, erll)}
        selection = SelectionSettings(rounds=sizes.rounds) if selects else None
        grid[name] = KernelSettings(name=name, selection=selection, **settings)
    return grid


def _networks(sizes: AblationSizes) -> dict[str, ModelSettings]:
    grid: dict[str, ModelSettings] = {}
    for width, has_rank, erll in product(sizes.widths, (False, True), (False, True)):
        name = " ".join([f"network {width}", *_words(has_rank, erll)])
        grid[name] = NetworkSettings(name=name, hidden=(width,) * sizes.depth, **_tricks(sizes, has_rank, erll))
    return grid


def _tricks(sizes: AblationSizes, has_rank: bool, erll: bool) -> dict[str, Any]:
    return {"rank": sizes.rank if has_rank else None, "criterion": "erll:1" if erll else "ce"}


def _words(has_rank: bool, erll: bool) -> list[str]:
    return ["bottleneck"] * has_rank + ["erll"] * erll
