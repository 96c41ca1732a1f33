"""Real tables: run the cells, then write the page.

python -m benchmarks.tabular --results DIR                                   # every set, split and contender
python -m benchmarks.tabular --results DIR --sets ames --contenders lightgbm catboost --splits 0
python -m benchmarks.tabular --results DIR --tuned --sets cadata             # 30 random configurations each
python -m benchmarks.tabular --results DIR --store benchmarks/tabular/results.csv   # nothing is run
python -m benchmarks.tabular --results benchmarks/tabular/results.csv --page docs/benchmarks_tabular.md
"""

from __future__ import annotations

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.tabular.contenders import CONTENDERS
from benchmarks.tabular.records import read_records, write_csv
from benchmarks.tabular.runner import Cell, Limits, Runner
from benchmarks.tabular.tables import sizes
from benchmarks.tabular.tuned import TUNED

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
RESULTS = ROOT.parent / "results" / "tabular"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.store is not None:
        write_csv(read_records(options.results), options.store)
    if options.page is not None:
        from benchmarks.tabular.page import write_page

        write_page(read_records(options.results), options.page)
    if options.store is not None or options.page is not None:
        return
    if options.jobs < 1:
        raise SystemExit(f"--jobs: must be at least 1, got {options.jobs}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the process of the cell ends as well
    limits = Limits(options.time_limit, options.memory_limit)
    results, data = options.results.absolute(), options.data.absolute()
    runner = Runner(results, data, options.threads, options.device, limits, options.jobs)
    cells = [cell for cell in _cells(options) if options.again or not runner.path(cell).exists()]
    with ThreadPoolExecutor(options.jobs) as pool:
        for cell, record in zip(cells, pool.map(runner.run, cells), strict=True):
            print(_line(cell, record), flush=True)


def _cells(options: argparse.Namespace) -> list[Cell]:
    """Small sets first, so that most cells finish early."""
    rows = sizes(options.data)
    unknown = set(options.sets or []) - set(rows)
    if unknown:
        raise SystemExit(f"--sets: {', '.join(sorted(unknown))} not in {options.data}; there are {', '.join(rows)}")
    names = [
        name
        for name, count in rows.items()
        if (not options.sets or name in options.sets) and (options.max_rows is None or count <= options.max_rows)
    ]
    contenders = options.contenders or list(TUNED if options.tuned else CONTENDERS)
    return [Cell(name, split, contender) for name, split, contender in product(names, options.splits, contenders)]


def _line(cell: Cell, record: dict[str, Any]) -> str:
    start = f"{cell.set:20} {cell.split} {cell.contender:24}"
    if "error" in record:
        return f"{start} {record['error'].splitlines()[0][:100]}"
    scores = ", ".join(f"{name} {value:.4f}" for name, value in record["scores"].items())
    seconds = f"fit {record['fit_seconds']:.1f} s, predict {record['predict_seconds']:.2f} s"
    return f"{start} {scores}; {seconds}, {record['fit_bytes'] / 2**20:.0f} MiB"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="directory of the .npz files and of tabular/")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="directory of one JSON file per cell; or a .csv file"
    )
    parser.add_argument("--sets", nargs="+", help="names of tables; all by default")
    parser.add_argument("--max-rows", type=int, help="only tables with at most this many rows")
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--contenders", nargs="+", choices=[*CONTENDERS, *TUNED])
    parser.add_argument("--tuned", action="store_true", help="the contenders with random configurations instead")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time; the product with --threads fits the cores")
    parser.add_argument("--device", default="cpu", help="for the contenders that can use a GPU")
    parser.add_argument("--time-limit", type=float, default=1200.0, help="CPU seconds per cell and thread")
    parser.add_argument("--memory-limit", type=float, default=12.0, help="GiB per cell")
    parser.add_argument("--again", action="store_true", help="run finished cells again")
    parser.add_argument("--store", type=Path, help="write all records to a .csv file without running anything")
    parser.add_argument("--page", type=Path, help="write the page from the results without running anything")
    return parser


if __name__ == "__main__":
    main()
