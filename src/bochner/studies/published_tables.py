"""Numbers that the papers report, as CSV files in `published/`.

`lowrank_*`: P. Bhardwaj, "Efficient Low Rank Approximation via Alternate Least Squares for Scalable Kernel Learning",
IIT Kanpur 2015, chapter 5; spectral errors are means over 10 runs, seconds are of MATLAB on an Intel i7-4770 (4 cores).
`adapted_bases`: M. Alber et al. 2017, Table 1, best test accuracy in %; their CoverType is the full set.
`speech_*`: A. May 2018, chapters 4 and 5, and A. May et al., JMLR 2019, Section 6; error rates in percent.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def published_table(name: str) -> tuple[dict[str, str], ...]:
    """One mapping per line of a table.

    >>> published_table("speech_best")[0]
    {'metric': 'CE', 'data': 'Beng.', 'dnn': '1.243', 'kernel': '1.256'}
    """
    text = (files("bochner.studies") / "published" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def numbers_by_set(name: str) -> dict[str, dict[str, float]]:
    """The numbers of a table by its column `data`, then by its other columns.

    >>> numbers_by_set("lowrank_ridge")["wine"]
    {'rmse': 0.7109}
    """
    return {
        line["data"]: {column: float(value) for column, value in line.items() if column != "data"}
        for line in published_table(name)
    }
