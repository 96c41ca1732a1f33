"""Alternating runs of ours and the peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.ceilings import large_product
from benchmarks.measure import Run, interleaved
from benchmarks.report import Row
from benchmarks.suite.sizes import Sizes

PLAIN = "plain torch"
CEILING = "the product's ceiling"


def race(
    table: str,
    ours: Mapping[str, Run],
    peers: Mapping[str, Run],
    sizes: Sizes,
    *,
    note: str = "",
    repeats: int | None = None,
) -> Iterator[Row]:
    """One row per run of ours and peer: seconds in the same rounds."""
    runs = {f"ours: {case}": run for case, run in ours.items()} | peers
    times = interleaved(runs, repeats or sizes.repeats, device=sizes.device)
    for case in ours:
        for peer in peers:
            yield Row(table, case, peer, "seconds", times[f"ours: {case}"], times[peer], note)


def race_with_ceiling(
    table: str,
    ours: Mapping[str, Run],
    peers: Mapping[str, Run],
    sizes: Sizes,
    *,
    flops: float,
    target: float | None = None,
    note: str = "",
) -> Iterator[Row]:
    """The same; on a CPU one large float32 product is also timed, and its time is scaled to `flops` operations.

    The ratio to it is the share of the machine's ceiling that is reached.
    """
    if sizes.device.type != "cpu":
        yield from race(table, ours, peers, sizes, note=note)
        return
    run, operations = large_product(sizes.device, size=sizes.ceiling)
    for row in race(table, ours, {**peers, CEILING: run}, sizes, note=note):
        if row.peer == CEILING:
            floor = [seconds * flops / operations for seconds in row.theirs]
            row = replace(row, theirs=floor, note="The share that is reached; float32.", target=target)
        yield row
