"""Tables 5.1 to 5.13 of the thesis (5.9, the setting, is `sets.SETS`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bochner.studies.lowrank import published
from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.grids import Entry, Table
from bochner.studies.lowrank.methods import SCHEMES, STARTS
from bochner.studies.lowrank.published import Published, Sweep
from bochner.studies.lowrank.sets import SETS, PointSet

# The thesis's methods, then ours: 8 r landmarks cut back to rank r, and the optimum for all points.
THESIS_METHODS = ("standard nystrom", "standard kmeans-nystrom", "meka", "fourier", "als")
OUR_METHODS = ("nystrom", "kmeans-nystrom", "svd")
MANY_POINTS = 10_000
FEW_SEEDS = 2  # of what hardly varies and takes long
RIDGE_RANK = 1000


def tables(sets: Sequence[str], seeds: Sequence[int]) -> list[Table]:
    """All tables, as far as they are about `sets`."""
    chosen = [SETS[name] for name in sets]
    sweeps = [_sweep(found, "sampling", SCHEMES, "als, ", seeds) for found in published.SAMPLING if found.data in sets]
    starts = [_sweep(found, "starts", STARTS, "als from ", seeds) for found in published.STARTS if found.data in sets]
    others = [_starts(chosen, seeds), _peers(chosen, seeds), _same(chosen, seeds), _seconds(chosen, seeds)]
    found = [*sweeps, *starts, *others, _ridge(chosen, seeds)]
    return [table for table in found if table.rows]


def _sweep(found: Sweep, what: str, names: Sequence[str], prefix: str, seeds: Sequence[int]) -> Table:
    def entry(bandwidth: float, name: str, value: float) -> Entry:
        cells = _factors(
            SETS[found.data], prefix + name, seeds, bandwidth=bandwidth, rank=found.rank, samples=found.samples
        )
        return Entry(cells, published=value)

    rows = {
        f"{bandwidth:g}": tuple(entry(bandwidth, name, value) for name, value in zip(names, values, strict=True))
        for bandwidth, values in found.errors.items()
    }
    title = f"{what}, {found.data}, rank {found.rank}, {found.samples:g} n log n samples"
    return Table(found.table, title, "bandwidth", tuple(names), rows)


def _starts(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    rows = {}
    for chosen in sets:
        if chosen.name in published.STARTS_BY_SET:
            bandwidth, samples, values = published.STARTS_BY_SET[chosen.name]
            rows[f"{chosen.name}, bandwidth {bandwidth:g}"] = tuple(
                Entry(
                    _factors(chosen, f"als from {start}", seeds, bandwidth=bandwidth, samples=samples), published=value
                )
                for start, value in zip(STARTS, values, strict=True)
            )
    return Table("5.8", "starts, bandwidths by the mean rule", "set", STARTS, rows)


def _peers(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = (*THESIS_METHODS, "optimum on the points", *OUR_METHODS)
    rows = {}
    for chosen in sets:
        values = published.PEERS.get(chosen.name)
        if values is not None:
            theirs = [_peer(chosen, method, values[method], seeds) for method in THESIS_METHODS]
            best = Entry(_optima(chosen, seeds), "spectral", *values["optimum"])
            ours = [Entry(_factors(chosen, method, seeds)) for method in OUR_METHODS]
            rows[f"{chosen.name}, r = {chosen.rank}"] = (*theirs, best, *ours)
    return Table("5.10", "spectral error at equal numbers of parameters", "set", columns, rows)


def _peer(chosen: PointSet, method: str, value: Published, seeds: Sequence[int]) -> Entry:
    return Entry(_factors(chosen, method, seeds), "spectral", *value)


def _same(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = ("standard nystrom", "standard kmeans-nystrom", "als", "cut nystrom", "cut kmeans-nystrom")
    rows = {}
    for chosen in sets:
        values = published.SAME_SAMPLES.get(chosen.name)
        if values is not None:
            rows[f"{chosen.name}, {chosen.samples:g} n log n"] = tuple(
                Entry(_factors(chosen, method, seeds, samples=chosen.samples), published=values.get(method))
                for method in columns
            )
    return Table("5.11", "spectral error from as many entries of K", "set", columns, rows)


def _seconds(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = (*THESIS_METHODS, *OUR_METHODS)
    rows = {}
    for chosen in sets:
        if chosen.name in published.PEERS:
            times = dict(zip(published.SECONDS_OF, published.SECONDS.get(chosen.name, ()), strict=False))
            rows[chosen.name] = tuple(
                Entry(_timed(chosen, method, seeds), "seconds", times.get(method)) for method in columns
            )
    return Table("5.12", "seconds", "set", columns, rows)


def _ridge(sets: Sequence[PointSet], seeds: Sequence[int]) -> Table:
    columns = ("exact", "pivoted-cholesky")
    rows = {}
    for chosen in sets:
        if chosen.name in published.RIDGE and chosen.ridge is not None:
            value, few = published.RIDGE[chosen.name], seeds[:FEW_SEEDS]
            rows[f"{chosen.name}, bandwidth {chosen.tuned:g}, ridge {chosen.ridge:.3g}"] = tuple(
                Entry(_folds(chosen, method, few), "rmse", value) for method in columns
            )
    return Table("5.13", f"ridge regression, 10 folds; the low rank is {RIDGE_RANK}", "set", columns, rows)


# -- cells -----------------------------------------------------------------------------------------------------


def _factors(
    chosen: PointSet,
    method: str,
    seeds: Sequence[int],
    *,
    bandwidth: float | None = None,
    rank: int | None = None,
    samples: float | None = None,
) -> tuple[Cell, ...]:
    """A method on a set in the thesis's setting; only ALS is told |Omega| unless `samples` says it."""
    few = seeds[:FEW_SEEDS] if method == "svd" and chosen.num_points > MANY_POINTS else seeds
    return tuple(
        Cell(
            "factor",
            chosen.name,
            chosen.bandwidth if bandwidth is None else bandwidth,
            seed,
            method,
            chosen.rank if rank is None else rank,
            chosen.samples if samples is None and method == "als" else samples,
            chosen.rounds if method == "als" else 3,
        )
        for seed in few
    )


def _timed(chosen: PointSet, method: str, seeds: Sequence[int]) -> tuple[Cell, ...]:
    few = seeds[: 1 if chosen.num_points > MANY_POINTS else FEW_SEEDS]
    return tuple(replace(cell, kind="seconds") for cell in _factors(chosen, method, few))


def _optima(chosen: PointSet, seeds: Sequence[int]) -> tuple[Cell, ...]:
    return tuple(Cell("optimum", chosen.name, chosen.bandwidth, seed, rank=chosen.rank) for seed in seeds)


def _folds(chosen: PointSet, method: str, seeds: Sequence[int]) -> tuple[Cell, ...]:
    assert chosen.ridge is not None
    rank = 0 if method == "exact" else RIDGE_RANK
    return tuple(
        Cell("folds", chosen.name, chosen.tuned, seed, method=method, rank=rank, ridge=chosen.ridge) for seed in seeds
    )
