"""Every part of the suite in one run: JSON, a plot and a page.

python -m benchmarks.suite                        # some minutes on two cores; writes docs/benchmarks_suite.md
python -m benchmarks.suite --parts epochs ridge   # some of the parts; does not write the page
python -m benchmarks.suite --quick                # tiny sizes, seconds: a smoke test that does not write the page
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from benchmarks.ceilings import ceilings, shown
from benchmarks.measure import machine
from benchmarks.report import Report, Row
from benchmarks.suite import epochs, factors, hadamard, nystrom, peers, prediction, products, ridge, selection
from benchmarks.suite.plot import write_plot
from benchmarks.suite.sizes import Sizes, full, quick

ROOT = Path(__file__).parents[2]
PAGE, FIGURE = ROOT / "docs" / "benchmarks_suite.md", ROOT / "docs" / "assets" / "suite.png"
Part = Callable[[Sizes], Iterator[Row]]
PARTS: dict[str, Part] = {
    "epochs": epochs.rows,
    "selection": selection.rows,
    "prediction": prediction.rows,
    "nystrom": nystrom.rows,
    "hadamard": hadamard.rows,
    "als": factors.rows,
    "products": products.rows,
    "ridge": ridge.rows,
}
PROTOCOL = (
    "Ours and the others take turns, A, B, A, B, after a warm-up: {repeats} rounds, {slow} of factors, products and "
    "ridge regression. Times are medians; the ratio is that of the medians, with the range over single rounds: theirs "
    "/ ours for times (more is better), ours / theirs for errors (less is better). The ceiling's time is that of the "
    "same number of operations in one large float32 product by torch, which takes its turn like the others. All data "
    "are generated, float32. Peers: {found}. {missing}"
)


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = quick(device) if options.quick else full(device)
    host = machine()  # first, since it records the load
    rates = ceilings(device, size=sizes.ceiling)
    print(f"ceilings: {shown(rates)}", flush=True)
    rows = list(_measured(options.parts, sizes))
    report = Report(
        "python -m benchmarks.suite",
        _protocol(sizes),
        host,
        rates,
        rows,
        title="Training, prediction, factors",
    )
    report.write_json(options.output)
    whole = not options.quick and options.parts == list(PARTS)
    write_plot(rows, FIGURE if whole else options.output.with_suffix(".png"))
    if whole:
        report.write_page(PAGE)


def _measured(parts: list[str], sizes: Sizes) -> Iterator[Row]:
    for peer in peers.missing():
        print(f"{peer} is not installed: left out")
    for part in parts:
        print(f"\n{part}", flush=True)
        for row in PARTS[part](sizes):
            print(row, flush=True)
            yield row


def _protocol(sizes: Sizes) -> str:
    found = ", ".join(f"{peer} {version}" for peer, version in peers.found().items())
    missing = f"Not installed: {', '.join(peers.missing())}." if peers.missing() else ""
    return PROTOCOL.format(repeats=sizes.repeats, slow=sizes.slow_repeats, found=found, missing=missing).rstrip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of tiny sizes; does not write the page")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--output", type=Path, default=ROOT / "out" / "benchmarks" / "suite.json")
    return parser


if __name__ == "__main__":
    main()
