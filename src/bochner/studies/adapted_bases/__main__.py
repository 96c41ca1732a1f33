"""`python -m bochner.studies.adapted_bases DATA_DIR`: the table and figures, as a page."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jsonargparse import auto_cli

from bochner.studies.adapted_bases.cells import Cell
from bochner.studies.adapted_bases.page import write_page
from bochner.studies.adapted_bases.run import FIGURES, SIZES, cells_of, run
from bochner.studies.ledger import Ledger


def study(
    data_dir: Path,
    *,
    size: Literal["smoke", "small", "large", "paper"] = "small",
    parts: str | None = None,
    sets: str = "mnist,covtype",
    num_features: str | None = None,
    seeds: str | None = None,
    ledger: Path = Path("out/adapted_bases/cells.jsonl"),
    page: Path = Path("out/adapted_bases/adapted_tables.md"),
    device: str = "cpu",
    measure: bool = True,
) -> None:
    """Measure what is not measured yet, then write the page with all that is.

    Args:
        data_dir: Folder of the .npz files that `studies/adapted_bases/sets.py` names.
        size: "small" has D up to 1,000 and 10 short epochs, "large" the same with D up to 30,000 (for a GPU), "paper"
            that D and the paper's epochs.
        parts: What to measure, with commas between: "figure 1,figure 2". Default: everything.
        sets: Sets to measure, with commas between.
        num_features: Only these numbers of features, with commas between. Default: those of the size.
        seeds: Only these trials, with commas between. Default: those of the size.
        ledger: Finished cells; the command may be stopped and given again.
        page: The page, with its figures in assets/adapted_bases/ beside it.
        device: Where maps and rows are, "cpu" or "cuda".
        measure: False only writes the page.
    """
    chosen = replace(SIZES[size])
    if num_features is not None:
        chosen = replace(chosen, num_features=tuple(map(int, listed(num_features))))
    if seeds is not None:
        chosen = replace(chosen, seeds=tuple(map(int, listed(seeds))))
    finished = Ledger(ledger, Cell)
    figures = list(FIGURES) if parts is None else listed(parts)
    if measure:
        run(
            [cell for figure in figures for cell in cells_of(figure, chosen, listed(sets))],
            data_dir,
            finished,
            device=device,
        )
    command = shlex.join(["python", "-m", "bochner.studies.adapted_bases", "DATA_DIR", "--size", size])
    write_page(SIZES[size], listed(sets), finished, page, command=command)
    print(f"Page: {page}   Cells: {ledger}")


def listed(text: str) -> list[str]:
    """Words between commas.

    >>> listed("figure 1, figure 2")
    ['figure 1', 'figure 2']
    """
    return [word.strip() for word in text.split(",")]


if __name__ == "__main__":
    auto_cli(study, args=sys.argv[1:])
