"""What the papers report: A. May 2018, chapters 4 and 5; May et al., JMLR 2019, Section 6. Error rates in percent."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files

from bochner.studies.speech.cells import NETWORK
from bochner.studies.speech.sizes import ERLL
from bochner.studies.study import Row

ORIGINALS = {
    "synthetic timit-like": "TIMIT",
    "synthetic cantonese-like": "Cant.",
    "synthetic bengali-like": "Beng.",
    "synthetic broadcast-like": "BN-50",
}
"""The corpus of the papers that each stands beside; none of them is here."""
WIDTHS = ("1000", "2000", "4000")
BEST = {"ter": "TER (dev)", "test_ter": "TER (test)"}
CORRELATED = {"erll:1": "erll_beta_1", "erll:0": "cross_entropy"}


@cache
def table(name: str) -> tuple[dict[str, str], ...]:
    """A table of the papers, a mapping a line.

    >>> table("best")[0]
    {'metric': 'CE', 'data': 'Beng.', 'dnn': '1.243', 'kernel': '1.256'}
    """
    text = (files("bochner.studies.speech") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


def published_kernel(row: Row, metric: str) -> float | None:
    """Of the same kernel and tricks, on the corpus that the task stands beside."""
    chosen = {"kernel": row["model"], "feature_selection": "yes" if row["selection"] else "no"}
    return _value("kernels", _about(row, metric) | chosen)


def published_network(row: Row, metric: str, widths: Sequence[int]) -> float | None:
    """Of the same tricks and the papers' network of the same place among `widths`: 1000, 2000, 4000."""
    return _value("networks", _about(row, metric) | {"hidden_units": WIDTHS[list(widths).index(row["width"])]})


def published_best(data: str, kind: str, metric: str) -> float | None:
    """
    >>> published_best("synthetic timit-like", "kernel", "test_ter")
    20.4
    """
    wanted = {"metric": BEST.get(metric, metric.upper()), "data": ORIGINALS[data]}
    return _value("best", wanted, column="dnn" if kind == NETWORK else "kernel")


def published_correlation(data: str, metric: str) -> float | None:
    """Known for ERLL with beta = 1 and for the cross-entropy."""
    return _value("correlation", {"metric": CORRELATED.get(metric, "")}, column=ORIGINALS[data])


def tricks_of(row: Row) -> str:
    """
    >>> tricks_of({"bottleneck": True, "criterion": "erll:1"})
    'bottleneck+erll'
    """
    return "+".join(["bottleneck"] * row["bottleneck"] + ["erll"] * (row["criterion"] == ERLL)) or "none"


def _about(row: Row, metric: str) -> dict[str, str]:
    return {"metric": metric.upper(), "data": ORIGINALS[row["data"]], "tricks": tricks_of(row)}


def _value(name: str, wanted: Mapping[str, str], *, column: str = "value") -> float | None:
    found = (line[column] for line in table(name) if all(line[key] == value for key, value in wanted.items()))
    value = next(found, None)
    return None if value is None else float(value)
