"""The report: one HTML page with every finding, plot, protocol and command, and its overview in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from bochner.report import Cell, Link, Mark, Page, insert_section, markdown_table
from bochner.storage import write_atomically
from bochner.studies.findings import Decision, Finding
from bochner.studies.intervals import Replicates, resample
from bochner.studies.registry import STUDIES
from bochner.studies.study import SavedRows, Study

COLUMNS = ("finding of the paper", "where", "measured here", "study", "holds here?")
PAPERS = ("paper", "findings", "hold", "do not hold", "open")
NOT_MEASURED, UNDECIDED = "not measured", "undecided"
WORDS = {True: "yes", False: "no", None: UNDECIDED}
WRITTEN = "Written by `bochner study report"
SECTION = "bochner study report"


class Assessment(NamedTuple):
    """A finding and its decision, None without rows; `open` while cells with an available data file are missing."""

    finding: Finding
    decision: Decision | None
    open: bool = False

    @property
    def word(self) -> str:
        if self.decision is None:
            return NOT_MEASURED
        return ("so far " if self.open else "") + WORDS[self.decision.holds]


def assess(findings: Sequence[Finding], saved: Mapping[str, SavedRows]) -> list[Assessment]:
    """Every finding, decided by the rows of its study and by intervals over their seeds."""
    replicates = {study.name: _replicates(study, saved[study.name]) for study in STUDIES if study.name in saved}
    return [_assess(finding, saved.get(finding.study), replicates.get(finding.study)) for finding in findings]


def _replicates(study: Study, saved: SavedRows) -> Replicates | None:
    names = [field.name for field in fields(study.cell)]  # type: ignore[arg-type]
    return resample(saved.rows, [name for name in names if name not in study.repeats])


def _assess(finding: Finding, saved: SavedRows | None, replicates: Replicates | None) -> Assessment:
    decision = finding.decide(saved.rows, replicates) if saved and saved.rows else None
    if decision is None or saved is None or len(saved.rows) == saved.num_cells:
        return Assessment(finding, decision)
    share = f"{decision.measured} (by {len(saved.rows):,} of {saved.num_cells:,} cells)"
    return Assessment(finding, decision._replace(measured=share), open=not saved.missing)


def read_all(studies: Sequence[Study], output_dir: Path, size: str) -> dict[str, SavedRows]:
    """The saved rows of each study that was run at a size."""
    saved = {study.name: SavedRows.read(output_dir, study.name, size) for study in studies}
    return {name: rows for name, rows in saved.items() if rows is not None}


def make_page(
    studies: Sequence[Study], findings: Sequence[Finding], saved: Mapping[str, SavedRows], *, size: str
) -> Page:
    """The whole report."""
    assessments, titles = assess(findings, saved), {study.name: study.title for study in studies}
    page = Page(f"The papers' findings, measured (size {size})")
    page.text(_summary(assessments)).heading("Overview")
    page.figure(_bars(assessments), "Findings of each paper by decision.")
    page.table(PAPERS, _by_paper(assessments))
    page.text(
        "A decision is computed from the rows of its study. A claim about data in general must hold on three quarters "
        "of the data sets, a claim about many cases on half of them; the number of each set is given with its 95 % "
        "interval over seeds. A set whose interval contains the limit is undecided, and so is a claim that such sets "
        "could change, or whose cells have fewer than three seeds. Theorems and spectra need no interval. A study's "
        "name links to its plots, protocol and command. Only the numbers in parentheses are those of the papers."
    )
    page.table(COLUMNS, [_line(assessment, titles) for assessment in assessments], cards=True)
    for study in studies:
        page.heading(study.title)
        _section(page, study, saved.get(study.name), size)
    page.heading("Data and machines")
    page.text(
        "The papers' licensed corpora (Babel Bengali and Cantonese, Broadcast News, all of TIMIT) are not available. "
        "Each section states which data sets replace others."
    )
    _data(page, saved)
    return page


def results_part(findings: Sequence[Finding], saved: Mapping[str, SavedRows], *, size: str) -> str:
    """The overview in Markdown, from the same rows."""
    assessments = assess(findings, saved)
    parts = [
        f"{WRITTEN} --size {size}`; do not edit. Each number: `bochner study run STUDY --size {size}`.",
        fill(_summary(assessments), width=120),
        markdown_table(PAPERS, _by_paper(assessments)),
        markdown_table(COLUMNS, [_line(assessment, {}) for assessment in assessments]),
    ]
    return "\n\n".join(parts) + "\n"


def write_results(path: Path, part: str) -> None:
    """Write `part` as a new file, or into its section of a page of results.

    Any other page is left unchanged, with an error.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    is_whole = not text or text.startswith(WRITTEN)
    write_atomically(path, (part if is_whole else insert_section(text, part, name=SECTION, path=path)).encode())


def _summary(assessments: Sequence[Assessment]) -> str:
    counts = Counter(assessment.word for assessment in assessments)
    others = {
        "do not hold": counts["no"],
        "undecided": counts[UNDECIDED],
        "not measured": counts[NOT_MEASURED],
        "decided from only some of their cells": sum(assessment.open for assessment in assessments),
    }
    rest = ", ".join(f"{words}: {count}" for words, count in others.items() if count)
    text = f"{counts['yes']} of {len(assessments)} findings of the papers hold on these data"
    return f"{text}; {rest}." if rest else f"{text}."


def _by_paper(assessments: Sequence[Assessment]) -> list[list[Cell]]:
    papers: dict[str, Counter[str]] = {}
    for assessment in assessments:
        papers.setdefault(assessment.finding.source.partition(",")[0], Counter())[assessment.word] += 1
    return [
        [name, words.total(), words["yes"], words["no"], words.total() - words["yes"] - words["no"]]
        for name, words in papers.items()
    ]


def _bars(assessments: Sequence[Assessment]) -> Any:
    """The number of findings of each paper that hold, do not hold or are open."""
    from matplotlib.figure import Figure

    lines = _by_paper(assessments)
    figure = Figure(figsize=(5, 0.8 + 0.4 * len(lines)), layout="constrained")
    axes = figure.subplots()
    start = [0] * len(lines)
    for label, column, color in (("hold", 2, "#009E73"), ("do not hold", 3, "#D55E00"), ("open", 4, "#999999")):
        widths = [int(line[column]) for line in lines]  # type: ignore[arg-type]
        axes.barh(range(len(lines)), widths, left=start, color=color, label=label)
        start = [left + width for left, width in zip(start, widths, strict=True)]
    axes.set_yticks(range(len(lines)), [str(line[0]) for line in lines])
    axes.invert_yaxis()
    axes.set_xlabel("findings")
    axes.legend(fontsize=7, frameon=False, loc="lower right")
    return figure


def _line(assessment: Assessment, titles: Mapping[str, str]) -> list[Cell]:
    finding, decision, word = assessment.finding, assessment.decision, assessment.word
    study: Cell = Link(finding.study, titles[finding.study]) if finding.study in titles else finding.study
    tone = {"yes": "good", "no": "bad"}.get(word, "open")
    return [finding.claim, finding.source, decision.measured if decision else "-", study, Mark(word, tone)]  # type: ignore[arg-type]


def _section(page: Page, study: Study, saved: SavedRows | None, size: str) -> None:
    page.note(f"{study.source}. Study {study.name}.")
    if saved is None or not saved.rows:
        page.text("Not measured at this size.")
    else:
        study.show(page, saved.rows)
        if len(saved.rows) < saved.num_cells:
            page.text(f"{len(saved.rows):,} of {saved.num_cells:,} cells are measured.")
    for name in saved.missing if saved else ():
        page.text(f"The file {name} was missing: its data are not measured.")
    page.note(f"Protocol: {study.protocol}")
    page.code(saved.command if saved else f"bochner study run {study.name} --size {size}")


def _data(page: Page, saved: Mapping[str, SavedRows]) -> None:
    runs = {str(run): run for rows in saved.values() for run in rows.runs}.values()
    checksums = {name: value for run in runs for name, value in run.get("data", {}).items()}
    page.table(["file", "SHA-256"], [[name, value] for name, value in sorted(checksums.items())])
    page.table(["study", "cells requested", "commit", "machine", "libraries"], [_run(run) for run in runs])


def _run(run: Mapping[str, Any]) -> list[Cell]:
    if "note" in run:  # cells added from another results file
        return [run["study"], run["cells"], "-", run["note"], "-"]
    machine = run["machine"]
    kind = f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads"
    libraries = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    commit = run["commit"][:10] + (" + changes" if "changes" in run["commit"] else "") if run["commit"] else "-"
    gpu = f", {machine['gpu']}" if machine["gpu"] else ""
    return [run["study"], run["cells"], commit, kind + gpu, f"bochner {run['bochner']}, {libraries}"]
