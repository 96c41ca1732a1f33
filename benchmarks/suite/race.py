"""Ours and the peers in turns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
    """A row for each of our runs and each peer: seconds in the same rounds."""
    runs = {f"ours: {case}": run for case, run in ours.items()} | peers
    times = interleaved(runs, repeats or sizes.repeats, device=sizes.device)
    for case in ours:
        for peer in peers:
            yield Row(table, case, peer, "seconds", times[f"ours: {case}"], times[peer], note)


def beside_ceiling(row: Row, *, flops: float, rates: Mapping[str, float], target: float | None = None) -> Row:
    """The same run beside the time of its `flops` in one large product: the ratio is the share reached."""
    floor, note = flops / rates["float32"] / 1e9, "The share that is reached; float32."
    return Row(row.table, row.case, CEILING, "seconds", row.ours, [floor] * len(row.ours), note, target=target)
