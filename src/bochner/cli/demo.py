"""`bochner demo`: tables, low-rank factors and speech compared with other methods."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import fill

LINE_WIDTH = 100


def demo(output_dir: Path = Path("out") / "demo", workers: int = 2) -> None:
    """Compare kernel methods with others on tables, factors and speech.

    Example:

        bochner demo --output_dir out/demo

    It takes under three minutes on two cores, without downloads; after an interruption it continues. Requires
    `pip install 'bochner[demo]'`.

    Args:
        output_dir: Directory for all results, among them report.html.
        workers: Processes for synthesis, alignment and decoding of the speech.
    """
    from bochner import checks
    from bochner.acoustic.results import as_text
    from bochner.studies.demo import MACHINES, Part, run_demo

    checks.imported("matplotlib", extra="demo")
    winners = []

    def show(part: Part) -> None:
        winners.append(part.winner)
        paragraphs = [part.title, as_text(part.table), fill(part.answer, LINE_WIDTH), fill(part.protocol, LINE_WIDTH)]
        print("\n" + "\n\n".join(paragraphs), flush=True)

    page = run_demo(output_dir, workers=workers, verbose=sys.stderr.isatty(), show=show)
    print(f"\n{fill(MACHINES, LINE_WIDTH)}\n")
    print(fill(f"The lowest errors: {'; '.join(winners)}.", LINE_WIDTH))
    print(f"The report is {page}.")
