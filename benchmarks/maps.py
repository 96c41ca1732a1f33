"""Feature maps: `python -m benchmarks.maps` measures; writes JSON and a part of docs/benchmarks_suite.md."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from benchmarks import gaussian, nystrom, wide
from benchmarks.ceilings import ceilings, shown
from benchmarks.data import QUICK, Sizes
from benchmarks.measure import CPU, machine
from benchmarks.report import Report, Row

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_suite.md"
COMMAND = "python -m benchmarks.maps"
PROTOCOL = (
    "Ours and the peer take turns, A, B, A, B, after a warm-up, so that drift of the machine affects both; {repeats} "
    "rounds. Times are medians; the ratio is that of the medians, with the range over single rounds. It is peer / ours "
    "for times (more is better), ours / peer for bytes and errors (less is better). Memory is what a fresh process "
    "adds to its resident set during the call, at its peak. Errors are ||Z Zᵀ - K|| / ||K|| in Frobenius norm, "
    "mean ± standard deviation over {seeds} seeds. Bandwidths follow the median rule and are the same for both. All "
    "data are generated, float32, and on the CPU."
)


def main() -> None:
    args = _arguments()
    sizes = QUICK if args.quick else Sizes()
    host = machine()  # first, since it records the load
    rates = ceilings(CPU, size=sizes.ceiling)
    print(f"ceilings: {shown(rates)}", flush=True)
    rows: list[Row] = []
    for row in measure(sizes):
        if not rows or row.table != rows[-1].table:
            print(f"\n{row.table}, against {row.peer}")
        print(row, flush=True)
        rows.append(row)
    protocol = PROTOCOL.format(repeats=sizes.repeats, seeds=sizes.seeds)
    report = Report(COMMAND, protocol, host, rates, rows, title="Feature maps")
    report.write_json(args.output)
    if not args.quick:
        report.write_page(PAGE)


def measure(sizes: Sizes) -> Iterator[Row]:
    yield from gaussian.transform_rows(sizes)
    yield from gaussian.memory_rows(sizes)
    yield from gaussian.error_rows(sizes)
    yield from wide.structured_rows(sizes)
    yield from wide.sparse_rows(sizes)
    yield from nystrom.fit_rows(sizes)
    yield from nystrom.error_rows(sizes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test of tiny sizes; does not write the page")
    parser.add_argument("--output", type=Path, default=Path("out/benchmarks/maps.json"), help="the JSON file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
