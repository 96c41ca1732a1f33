"""Figures 5.1 to 5.6 of the thesis. Its abalone is not among the sets: the scaled wine stands in 5.5 and 5.6."""

from __future__ import annotations

from collections.abc import Sequence

from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.grids import Curve, Entry, Figure, Panel
from bochner.studies.lowrank.sets import SETS, PointSet

BANDWIDTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
RANKS = (10, 25, 50, 100, 200)
METHODS = ("standard nystrom", "standard kmeans-nystrom", "als", "nystrom")
ERRORS_ON = ("ijcnn1 small", "german", "satimage", "wine scaled", "cpusmall scaled", "cpusmall", "wine")
RIDGES_ON = ("wine scaled", "cpusmall scaled", "wine")
INSTEAD_OF_ABALONE = "wine scaled"


def figures(sets: Sequence[str], seeds: Sequence[int]) -> list[Figure]:
    """All figures, as far as they are about `sets`."""
    alone = [name for name in (INSTEAD_OF_ABALONE,) if name in sets]
    with_meka = (*METHODS, "meka")
    errors, ridges = ([name for name in names if name in sets] for names in (ERRORS_ON, RIDGES_ON))
    found = [
        _stable_ranks(sets, seeds),
        Figure("5.2", "Spectral error", "parameters", "spectral error", _error_panels(errors, seeds)),
        _ridge_figure("5.3", ridges, METHODS, seeds, y_scale="linear"),
        _condition_figure("5.4", ridges, (*METHODS, "svd"), seeds),
        _condition_figure("5.5", alone, (*with_meka, "svd"), seeds),
        _ridge_figure("5.6", alone, with_meka, seeds),
    ]
    return [figure for figure in found if figure.panels]


def _stable_ranks(sets: Sequence[str], seeds: Sequence[int]) -> Figure:
    curves = []
    for name in sets:
        entries = [
            Entry(tuple(Cell("stable rank", name, width, seed) for seed in seeds), "stable_rank")
            for width in BANDWIDTHS
        ]
        curves.append(Curve(name, tuple(entries), "multiple"))
    return Figure(
        "5.1",
        "Stable rank",
        "bandwidth in units of the mean rule",
        "stable rank",
        (Panel("1,000 points each", tuple(curves)),),
    )


def _error_panels(sets: Sequence[str], seeds: Sequence[int]) -> tuple[Panel, ...]:
    panels = []
    for chosen in (SETS[name] for name in sets):
        curves = [_curve(chosen, method, seeds, "spectral", "parameters") for method in (*METHODS, "meka", "fourier")]
        best = [Entry(tuple(_optimum(chosen, rank, seed) for seed in seeds)) for rank in RANKS]
        panels.append(
            Panel(
                f"{chosen.name}, bandwidth {chosen.bandwidth:g}", (*curves, Curve("optimum", tuple(best), "parameters"))
            )
        )
    return tuple(panels)


def _condition_figure(number: str, sets: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> Figure:
    panels = []
    for chosen in (SETS[name] for name in sets):
        curves = [_curve(chosen, method, seeds, "condition_number", "rank") for method in methods]
        panels.append(Panel(f"{chosen.name}, bandwidth {chosen.bandwidth:g}", tuple(curves)))
    return Figure(number, "Condition number", "rank", "condition number", tuple(panels), x_scale="linear")


def _ridge_figure(
    number: str, sets: Sequence[str], methods: Sequence[str], seeds: Sequence[int], *, y_scale: str = "log"
) -> Figure:
    panels = []
    for chosen in (SETS[name] for name in sets):
        for part in ("train", "test"):
            curves = [_split_curve(chosen, method, seeds, f"{part}_rmse") for method in methods]
            exact = Entry(tuple(_split(chosen, "exact", 0, seed) for seed in seeds), f"{part}_rmse")
            panels.append(Panel(f"{chosen.name}, {part}", (*curves, Curve("exact", (exact,), "parameters"))))
    return Figure(number, "Ridge regression", "parameters", "root mean squared error", tuple(panels), y_scale=y_scale)


# -- curves and cells ------------------------------------------------------------------------------------------


def _curve(chosen: PointSet, method: str, seeds: Sequence[int], measure: str, against: str) -> Curve:
    entries = [
        Entry(tuple(Cell("factor", chosen.name, chosen.bandwidth, s, method, rank) for s in seeds), measure)
        for rank in RANKS
    ]
    return Curve(method, tuple(entries), against)


def _split_curve(chosen: PointSet, method: str, seeds: Sequence[int], measure: str) -> Curve:
    entries = [Entry(tuple(_split(chosen, method, rank, seed) for seed in seeds), measure) for rank in RANKS]
    return Curve(method, tuple(entries), "parameters")


def _split(chosen: PointSet, method: str, rank: int, seed: int) -> Cell:
    assert chosen.ridge is not None
    return Cell("split", chosen.name, chosen.tuned, seed, method, rank, ridge=chosen.ridge)


def _optimum(chosen: PointSet, rank: int, seed: int) -> Cell:
    return Cell("optimum", chosen.name, chosen.bandwidth, seed, rank=rank)
