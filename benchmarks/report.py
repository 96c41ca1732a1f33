"""Rows of figures, and the page that shows them."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from benchmarks.ceilings import shown
from benchmarks.measure import Spread, ratio
from bochner.report import insert_section

Unit = Literal["seconds", "bytes", "error"]


@dataclass(frozen=True)
class Row:
    """One comparison with a peer: the same measurement of both in each round.

    The ratio is peer / ours for seconds (a speed-up, the target is a floor) and ours / peer for bytes and errors
    (a share, the target is a ceiling). `flops` counts our matrix products, to be set against the machine's ceiling.
    """

    table: str
    case: str
    peer: str
    unit: Unit
    ours: list[float]
    theirs: list[float]
    note: str
    target: float | None = None
    flops: float | None = None

    @property
    def ratio(self) -> Spread:
        if self.unit == "seconds":
            return ratio(self.theirs, self.ours, middle=_middle(self.unit))
        return ratio(self.ours, self.theirs, middle=_middle(self.unit))

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        middle = self.ratio.middle
        return middle >= self.target if self.unit == "seconds" else middle <= self.target

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio._asdict(), "met": self.met}

    def __str__(self) -> str:
        case, ours, theirs, ratio, target, met = _cells(self)
        return f"  {case:26} {ours:>20} {theirs:>20} {ratio:>24} {target:>8} {met:4} {self.peer}"


@dataclass(frozen=True)
class Report:
    """A whole run."""

    command: str
    protocol: str
    machine: dict[str, str | int | float]
    ceilings: dict[str, float]  # GFLOP/s of products, GB/s of a copy
    rows: list[Row]
    title: str

    def write_json(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {**asdict(self), "rows": [row.as_dict() for row in self.rows]}
        path.write_text(json.dumps(record, indent=1) + "\n")

    def write_page(self, path: Path) -> None:
        write_section(path, "\n".join(self._lines()) + "\n", command=self.command)

    def _lines(self) -> Iterable[str]:
        m = self.machine
        yield f"# {self.title}"
        yield f"\nWritten by `{self.command}`, commit {m['commit']}; do not edit. {self._score()}"
        yield (
            f"\n**Machine.** {m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, {m['system']}, load {m['load']} "
            f"before the run; Python {m['python']}, torch {m['torch']} ({m['torch_threads']} threads), "
            f"NumPy {m['numpy']}, scikit-learn {m['sklearn']}."
        )
        yield f"\n**Ceilings.** Large products and a copy in the same run: {shown(self.ceilings)}."
        yield f"\n**Protocol.** {self.protocol}"
        for table, rows in groupby(self.rows, key=lambda row: row.table):
            yield from self._table(table, list(rows))

    def _score(self) -> str:
        judged = [row for row in self.rows if row.met is not None]
        return f"{sum(bool(row.met) for row in judged)} of {len(judged)} targets are met."

    def _table(self, table: str, rows: list[Row]) -> Iterable[str]:
        yield f"\n## {table}\n"
        notes = [row.note + self._share(row) for row in rows]
        several, noted = len({row.peer for row in rows}) > 1, len(set(notes)) > 1
        targets = any(row.target is not None for row in rows)
        if notes[0] and not noted:
            yield f"{notes[0]}\n"
        peer = "beside | theirs" if several else rows[0].peer
        yield f"| case | ours | {peer} | ratio (range) |" + " target | met |" * targets + " |" * noted
        yield "|---|---:|" + "---|" * several + "---:|---:|" + "---:|---|" * targets + "---|" * noted
        for row, note in zip(rows, notes, strict=True):
            case, ours, theirs, ratio, *target = _cells(row)
            others = [theirs, ratio, *(target if targets else []), *([note] if noted else [])]
            yield "| " + " | ".join([case, ours, *([row.peer] if several else []), *others]) + " |"

    def _share(self, row: Row) -> str:
        if row.flops is None:
            return ""
        rate = row.flops / _middle(row.unit)(row.ours) / 1e9
        return f" {rate / self.ceilings['float32']:.0%} of the product's ceiling."


def write_section(path: Path, text: str, *, command: str) -> None:
    """Write the text between the lines `<!-- COMMAND: begin -->` and `<!-- COMMAND: end -->` of a page."""
    path.write_text(insert_section(path.read_text(), wrap_prose(text), name=command, path=path))


def wrap_prose(page: str, *, width: int = 118) -> str:
    """The Markdown page with paragraphs filled to the width; elsewhere, such as in lists, long lines are wrapped.

    >>> print(wrap_prose("# A title\\n\\nsome words\\nof prose\\n\\n| a | table |\\n", width=80))
    # A title
    <BLANKLINE>
    some words of prose
    <BLANKLINE>
    | a | table |
    <BLANKLINE>
    """
    return "\n\n".join(_wrapped(part, width) for part in page.strip("\n").split("\n\n")) + "\n"


def _wrapped(part: str, width: int) -> str:
    lines = part.strip("\n").split("\n")
    if not any(line.startswith(("|", "#", "-", "!", " ", "```")) for line in lines):
        lines = [" ".join(lines)]
    return "\n".join(
        line
        if len(line) <= width or line.startswith(("|", "#"))
        else textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in lines
    )


def _cells(row: Row) -> list[str]:
    relation = "≥" if row.unit == "seconds" else "≤"
    target = "" if row.target is None else f"{relation} {row.target:g}"
    met = {None: "", True: "yes", False: "no"}[row.met]
    return [row.case, _value(row.unit, row.ours), _value(row.unit, row.theirs), _ratio(row), target, met]


def _middle(unit: Unit) -> Callable[[list[float]], float]:
    """Times have outliers, errors have few seeds."""
    return statistics.mean if unit == "error" else statistics.median


def _value(unit: Unit, values: list[float]) -> str:
    middle = _middle(unit)(values)
    if unit == "seconds":
        return f"{middle:.3f} s" if middle >= 0.02 else f"{1e3 * middle:.3g} ms"
    if unit == "bytes":
        return f"{middle / 2**20:.2f} MiB"
    return f"{middle:.5f}" + (f" ± {statistics.stdev(values):.5f}" if len(values) > 1 else "")


def _ratio(row: Row) -> str:
    middle, low, high = row.ratio
    return f"{middle:.3g}" if low == high else f"{middle:.3g} ({low:.3g} to {high:.3g})"
