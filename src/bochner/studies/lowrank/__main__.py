"""`python -m bochner.studies.lowrank DATA_DIR`: the tables and figures, as a page."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Literal

from jsonargparse import auto_cli

from bochner.studies.ledger import Ledger
from bochner.studies.lowrank.cells import Cell
from bochner.studies.lowrank.page import write_page
from bochner.studies.lowrank.run import SIZES, plan, run


def study(
    data_dir: Path,
    *,
    size: Literal["smoke", "small", "thesis"] = "small",
    parts: str | None = None,
    sets: str | None = None,
    ledger: Path = Path("out/lowrank/cells.jsonl"),
    page: Path = Path("out/lowrank/lowrank_tables.md"),
    measure: bool = True,
) -> None:
    """Measure what is not measured yet, then write the page with all that is.

    Args:
        data_dir: Folder of the .npz files that `studies/lowrank/sets.py` names.
        size: "small" has sets of up to 10,000 points and 2 seeds, "thesis" all of them and 10 seeds.
        parts: What to measure, with commas between: "table 5.10,figure 5.2". Default: everything.
        sets: Sets to measure, with commas between: "german,wine scaled". Default: all of the size.
        ledger: Finished cells; the command may be stopped and given again.
        page: The page, with its figures in assets/lowrank/ beside it.
        measure: False only writes the page.
    """
    finished, chosen = Ledger(ledger, Cell), SIZES[size]
    if measure:
        asked = plan(replace(chosen, sets=listed(sets) or chosen.sets), parts=listed(parts))
        run(asked, data_dir, finished)
    command = shlex.join(["python", "-m", "bochner.studies.lowrank", "DATA_DIR", "--size", size, "--page", str(page)])
    write_page(plan(chosen), finished, page, command=command)
    print(f"Page: {page}   Cells: {ledger}")


def listed(text: str | None) -> tuple[str, ...] | None:
    """Words between commas.

    >>> listed("table 5.10, figure 5.2")
    ('table 5.10', 'figure 5.2')
    """
    return None if text is None else tuple(word.strip() for word in text.split(","))


if __name__ == "__main__":
    auto_cli(study, args=sys.argv[1:])
