"""Tables 5.1 to 5.13 and Figures 5.1 to 5.6 of the thesis as grids of cells; 5.9, the setup, is `lowrank_cells.SETS`.

The thesis's abalone is not available: the scaled wine replaces it in Figures 5.5 and 5.6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, pstdev
from types import MappingProxyType
from typing import NamedTuple

from bochner import checks
from bochner.studies.findings import by
from bochner.studies.lowrank_cells import SETS, Cell, PointSet
from bochner.studies.lowrank_methods import SCHEMES, STARTS, THESIS_PREFIX
from bochner.studies.published_tables import numbers_by_set, published_table
from bochner.studies.results_file import Results
from bochner.studies.study import Size

# The thesis's methods, then ours: 8 r landmarks truncated to rank r, and the optimum for all points.
THESIS_METHODS = ("standard nystrom", "standard kmeans-nystrom", "thesis meka", "meka", "fourier", "thesis als", "als")
OUR_METHODS = ("nystrom", "kmeans-nystrom", "svd")
MANY_POINTS = 10_000
FEW_SEEDS = 3  # for measurements that take long and hardly vary
RIDGE_RANK = 1000
# Methods of the figures.
BANDWIDTHS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0)
RANKS = (10, 25, 50, 100, 200)
CURVE_METHODS = ("standard nystrom", "standard kmeans-nystrom", "als", "nystrom")
ERROR_SETS = ("ijcnn1 small", "german", "satimage", "wine scaled", "cpusmall scaled", "cpusmall", "wine")
RIDGE_SETS = ("wine scaled", "cpusmall scaled", "wine")
INSTEAD_OF_ABALONE = "wine scaled"


class Entry(NamedTuple):
    """One number, the mean of a cell over several seeds, and that of the thesis."""

    cells: tuple[Cell, ...]
    measure: str = "spectral"
    published: float | None = None
    published_spread: float | None = None


class Summary(NamedTuple):
    """Mean and standard deviation over the measured seeds."""

    mean: float
    spread: float
    num_seeds: int


@dataclass(frozen=True)
class Table:
    """Rows with one entry per column; `label` is the heading of the first column."""

    number: str
    title: str
    label: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Entry, ...]]


class EntryCurve(NamedTuple):
    """Entries against the measure `against` of the same cells."""

    label: str
    entries: tuple[Entry, ...]
    against: str


@dataclass(frozen=True)
class Figure:
    """Panels, by title, with the same axes."""

    number: str
    title: str
    x: str
    y: str
    panels: Mapping[str, tuple[EntryCurve, ...]]
    x_scale: str = "log"
    y_scale: str = "log"


class Plan(NamedTuple):
    """Tables and figures to be filled."""

    tables: tuple[Table, ...]
    figures: tuple[Figure, ...]

    def cells(self) -> list[Cell]:
        """Every cell once, in order."""
        entries = [entry for table in self.tables for row in table.rows.values() for entry in row]
        for figure in self.figures:
            entries += [entry for curves in figure.panels.values() for curve in curves for entry in curve.entries]
        return list(dict.fromkeys(cell for entry in entries for cell in entry.cells))


class Scope(NamedTuple):
    """The data sets and seeds of a size; seeds 0 and 1, on which the defaults of `fit_als` were tuned, are excluded."""

    sets: tuple[str, ...]
    seeds: tuple[int, ...]
    figure_seeds: tuple[int, ...]


_FEW_POINTS = tuple(name for name, point_set in SETS.items() if point_set.num_points <= MANY_POINTS)
SCOPES: Mapping[Size, Scope] = MappingProxyType(
    {
        "smoke": Scope(("german",), (100,), (100,)),
        "small": Scope(_FEW_POINTS, (100, 101, 102), (100,)),
        "paper": Scope(tuple(SETS), tuple(range(100, 110)), (100, 101, 102)),
    }
)


def plan(size: Size, *, sets: Sequence[str] | None = None, parts: Sequence[str] | None = None) -> Plan:
    """All tables and figures of a size, or some `parts`, such as "table 5.10" and "figure 5.2".

    `sets` replaces the data sets of the size.

    >>> cells = plan("smoke", parts=["table 5.10"]).cells()
    >>> len(cells), cells[0].method
    (11, 'standard nystrom')
    """
    scope = SCOPES[size] if sets is None else SCOPES[size]._replace(sets=tuple(sets))
    for name in scope.sets:
        checks.one_of("sets", name, SETS)
    by_part = {f"table {table.number}": table for table in tables(scope.sets, scope.seeds)}
    figure_by_part = {f"figure {figure.number}": figure for figure in figures(scope)}
    chosen = [*by_part, *figure_by_part] if parts is None else parts
    return Plan(
        tuple(table for part, table in by_part.items() if part in chosen),
        tuple(figure for part, figure in figure_by_part.items() if part in chosen),
    )


def summarize(entry: Entry, results: Results[Cell], *, measure: str | None = None) -> Summary | None:
    """The measured part of an entry, None if no cell is measured; `measure` replaces its own."""
    values = [result[measure or entry.measure] for result in map(results.get, entry.cells) if result is not None]
    if not values:
        return None
    spread = pstdev(values) if all(map(math.isfinite, values)) else math.inf  # a condition number may be infinite
    return Summary(fmean(values), spread, len(values))


# -- tables ----------------------------------------------------------------------------------------------------


def tables(sets: Sequence[str], seeds: Sequence[int]) -> list[Table]:
    """All tables, restricted to `sets`."""
    chosen = [SETS[name] for name in sets]
    all_tables = [
        *_sweeps("lowrank_sampling", "sampling", SCHEMES, "als, ", sets, seeds),
        *_sweeps("lowrank_starts", "starts", STARTS, "als from ", sets, seeds),
        _starts_by_set(sets, seeds),
        _equal_parameters(chosen, seeds),
        _same_samples(chosen, seeds),
        _seconds(chosen, seeds),
        _ridge(chosen, seeds),
    ]
    return [table for table in all_tables if table.rows]


def _sweeps(
    name: str, title: str, columns: Sequence[str], prefix: str, sets: Sequence[str], seeds: Sequence[int]
) -> list[Table]:
    """Tables over bandwidths, one per data set and rank: rows of `fit_als`, and of the thesis's Algorithm 2."""
    sweeps = []
    lines = [line for line in published_table(name) if line["data"] in sets and line["table"] != "5.8"]
    for (number, data, rank, samples), group in by(lines, "table", "data", "rank", "samples").items():
        rows = _both(columns, prefix, seeds, {line["bandwidth"]: line for line in group})
        full_title = f"{title}, {data}, rank {rank}, {samples} n log n samples"
        sweeps.append(Table(number, full_title, "bandwidth", tuple(columns), rows))
    return sweeps


def _starts_by_set(sets: Sequence[str], seeds: Sequence[int]) -> Table:
    lines = {line["data"]: line for line in published_table("lowrank_starts") if line["table"] == "5.8"}
    labels = {f"{name}, bandwidth {float(lines[name]['bandwidth']):g}": lines[name] for name in sets if name in lines}
    return Table("5.8", "starts, bandwidths by the mean rule", "set", STARTS, _both(STARTS, "als from ", seeds, labels))


def _both(
    columns: Sequence[str], prefix: str, seeds: Sequence[int], lines: Mapping[str, Mapping[str, str]]
) -> dict[str, tuple[Entry, ...]]:
    """Two rows for each line of a published table: ours, and the algorithm as published."""
    rows = {}
    for label, line in lines.items():
        rows[label] = _published_row(line, columns, prefix, seeds)
        rows[f"{label}, Algorithm 2"] = _published_row(line, columns, THESIS_PREFIX + prefix, seeds)
    return rows


def _published_row(
    line: Mapping[str, str], columns: Sequence[str], prefix: str, seeds: Sequence[int]
) -> tuple[Entry, ...]:
    bandwidth, rank, samples = float(line["bandwidth"]), int(line["rank"]), float(line["samples"])

    def cells(method: str) -> tuple[Cell, ...]:
        return _factors(SETS[line["data"]], method, seeds, bandwidth=bandwidth, rank=rank, samples=samples)

    return tuple(Entry(cells(prefix + column), published=float(line[column])) for column in columns)


def _equal_parameters(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = (*THESIS_METHODS, "optimum on the points", *OUR_METHODS)
    published = {
        (line["data"], line["method"]): (float(line["mean"]), float(line["spread"]) if line["spread"] else None)
        for line in published_table("lowrank_spectral_error")
    }
    rows = {}
    for chosen in sets:
        if (chosen.name, "als") in published:
            theirs = [
                Entry(_factors(chosen, method, seeds), "spectral", *published[chosen.name, _published_name(method)])
                for method in THESIS_METHODS
            ]
            optima = tuple(_optimum(chosen, chosen.rank, seed) for seed in seeds)
            best = Entry(optima, "spectral", *published[chosen.name, "optimum"])
            ours = [Entry(_factors(chosen, method, seeds)) for method in OUR_METHODS]
            rows[f"{chosen.name}, r = {chosen.rank}"] = (*theirs, best, *ours)
    return Table("5.10", "spectral error at equal numbers of parameters", "set", columns, rows)


def _published_name(method: str) -> str:
    """The column of the thesis that a method is compared with."""
    return method.removeprefix(THESIS_PREFIX)


def _same_samples(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = ("standard nystrom", "standard kmeans-nystrom", "als", "cut nystrom", "cut kmeans-nystrom")
    published = numbers_by_set("lowrank_same_samples")
    rows = {
        f"{chosen.name}, {chosen.samples:g} n log n": tuple(
            Entry(_factors(chosen, method, seeds, samples=chosen.samples), published=published[chosen.name].get(method))
            for method in columns
        )
        for chosen in sets
        if chosen.name in published
    }
    return Table("5.11", "spectral error from the same number of entries of K", "set", columns, rows)


def _seconds(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns, published = (*THESIS_METHODS, *OUR_METHODS), numbers_by_set("lowrank_seconds")
    compared = {line["data"] for line in published_table("lowrank_spectral_error")}
    rows = {}
    for chosen in sets:
        if chosen.name in compared:
            few = seeds[: 1 if chosen.num_points > MANY_POINTS else FEW_SEEDS]
            entries = []
            for method in columns:
                cells = tuple(replace(cell, kind="seconds") for cell in _factors(chosen, method, few))
                seconds = published.get(chosen.name, {}).get(_published_name(method))
                entries.append(Entry(cells, "seconds", seconds))
            rows[chosen.name] = tuple(entries)
    return Table("5.12", "seconds", "set", columns, rows)


def _ridge(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns, published = ("exact", "pivoted-cholesky"), numbers_by_set("lowrank_ridge")
    rows = {}
    for chosen in sets:
        if chosen.name in published:
            entries = []
            for method, rank in zip(columns, (0, RIDGE_RANK), strict=True):
                cells = tuple(_regression("folds", chosen, method, rank, seed) for seed in seeds[:FEW_SEEDS])
                entries.append(Entry(cells, "rmse", published[chosen.name]["rmse"]))
            label = f"{chosen.name}, bandwidth {chosen.tuned_bandwidth:g}, ridge {chosen.ridge:.3g}"
            rows[label] = tuple(entries)
    return Table("5.13", f"ridge regression, 10 folds; the low rank is {RIDGE_RANK}", "set", columns, rows)


# -- figures ---------------------------------------------------------------------------------------------------


def figures(scope: Scope) -> list[Figure]:
    """All figures, restricted to `scope.sets`; those of stable ranks, which decide a finding, have three seeds."""
    sets, seeds = scope.sets, scope.figure_seeds
    alone = [name for name in (INSTEAD_OF_ABALONE,) if name in sets]
    errors, ridges = ([name for name in names if name in sets] for names in (ERROR_SETS, RIDGE_SETS))
    with_meka = (*CURVE_METHODS, "meka")
    all_figures = [
        _stable_ranks(sets, scope.seeds[:FEW_SEEDS]),
        Figure("5.2", "Spectral error", "parameters", "spectral error", _error_panels(errors, seeds)),
        _ridge_figure("5.3", ridges, CURVE_METHODS, seeds, y_scale="linear"),
        _condition_figure("5.4", ridges, (*CURVE_METHODS, "svd"), seeds),
        _condition_figure("5.5", alone, (*with_meka, "svd"), seeds),
        _ridge_figure("5.6", alone, with_meka, seeds),
    ]
    return [figure for figure in all_figures if figure.panels]


def _stable_ranks(sets: Sequence[str], seeds: Sequence[int]) -> Figure:
    curves = []
    for name in sets:
        entries = [
            Entry(tuple(Cell("stable rank", name, bandwidth, seed) for seed in seeds), "stable_rank")
            for bandwidth in BANDWIDTHS
        ]
        curves.append(EntryCurve(name, tuple(entries), "multiple"))
    panels = {"1,000 points each": tuple(curves)}
    return Figure("5.1", "Stable rank", "bandwidth in units of the mean rule", "stable rank", panels)


def _error_panels(sets: Sequence[str], seeds: Sequence[int]) -> dict[str, tuple[EntryCurve, ...]]:
    panels = {}
    for chosen in (SETS[name] for name in sets):
        methods = (*CURVE_METHODS, "meka", "fourier")
        curves = [_curve(chosen, method, seeds, "spectral", "parameters") for method in methods]
        optima = [Entry(tuple(_optimum(chosen, rank, seed) for seed in seeds)) for rank in RANKS]
        panels[_set_title(chosen)] = (*curves, EntryCurve("optimum", tuple(optima), "parameters"))
    return panels


def _condition_figure(number: str, sets: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> Figure:
    panels = {
        _set_title(chosen): tuple(_curve(chosen, method, seeds, "condition_number", "rank") for method in methods)
        for chosen in (SETS[name] for name in sets)
    }
    return Figure(number, "Condition number", "rank", "condition number", panels, x_scale="linear")


def _ridge_figure(
    number: str, sets: Sequence[str], methods: Sequence[str], seeds: Sequence[int], *, y_scale: str = "log"
) -> Figure:
    panels = {}
    for chosen in (SETS[name] for name in sets):
        for part in ("train", "test"):
            curves = [_split_curve(chosen, method, RANKS, seeds, part) for method in methods]
            panels[f"{chosen.name}, {part}"] = (*curves, _split_curve(chosen, "exact", (0,), seeds, part))
    return Figure(number, "Ridge regression", "parameters", "root mean squared error", panels, y_scale=y_scale)


def _set_title(chosen: PointSet) -> str:
    return f"{chosen.name}, bandwidth {chosen.bandwidth:g}"


# -- cells -----------------------------------------------------------------------------------------------------


def _curve(chosen: PointSet, method: str, seeds: Sequence[int], measure: str, against: str) -> EntryCurve:
    entries = [
        Entry(tuple(Cell("factor", chosen.name, chosen.bandwidth, s, method, rank) for s in seeds), measure)
        for rank in RANKS
    ]
    return EntryCurve(method, tuple(entries), against)


def _split_curve(chosen: PointSet, method: str, ranks: Iterable[int], seeds: Sequence[int], part: str) -> EntryCurve:
    entries = [
        Entry(tuple(_regression("split", chosen, method, rank, seed) for seed in seeds), f"{part}_rmse")
        for rank in ranks
    ]
    return EntryCurve(method, tuple(entries), "parameters")


def _factors(
    chosen: PointSet,
    method: str,
    seeds: Sequence[int],
    *,
    bandwidth: float | None = None,
    rank: int | None = None,
    samples: float | None = None,
) -> tuple[Cell, ...]:
    """A method on a data set with the thesis's settings; without `samples` only ALS uses |Omega|.

    `fit_als` takes more rounds on the larger sets, Algorithm 2 the 3 of the thesis.
    """
    few = seeds[:FEW_SEEDS] if method == "svd" and chosen.num_points > MANY_POINTS else seeds
    bandwidth, rank = bandwidth or chosen.bandwidth, rank or chosen.rank
    samples = chosen.samples if samples is None and _published_name(method) == "als" else samples
    rounds = chosen.rounds if method == "als" else 3
    return tuple(Cell("factor", chosen.name, bandwidth, seed, method, rank, samples, rounds) for seed in few)


def _regression(kind: str, chosen: PointSet, method: str, rank: int, seed: int) -> Cell:
    assert chosen.ridge is not None
    return Cell(kind, chosen.name, chosen.tuned_bandwidth, seed, method, rank, ridge=chosen.ridge)  # type: ignore[arg-type]


def _optimum(chosen: PointSet, rank: int, seed: int) -> Cell:
    return Cell("optimum", chosen.name, chosen.bandwidth, seed, rank=rank)
