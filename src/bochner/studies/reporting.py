"""The report: one page with every verdict, every plot, and how each number was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bochner.report import Cell, Link, Mark, Page, markdown_table
from bochner.studies.findings import Finding, Verdict
from bochner.studies.saved import Saved, read_saved
from bochner.studies.study import Study

COLUMNS = ("paper says", "where", "we measured", "study", "same finding?")
PAPERS = ("paper", "findings", "seen", "not seen", "open")
NOT_MEASURED = "not measured"


WRITTEN = "Written by `bochner study report"


class Judged(NamedTuple):
    """A finding and its verdict, None where there are no rows for it; `open` while some of its cells are not measured.

    Cells whose file is not there do not keep it open.
    """

    finding: Finding
    verdict: Verdict | None
    open: bool = False


def judge(findings: Sequence[Finding], saved: Mapping[str, Saved]) -> list[Judged]:
    """Every finding by the rows of its study."""
    return [_judged(finding, saved.get(finding.study)) for finding in findings]


def _judged(finding: Finding, saved: Saved | None) -> Judged:
    """What the rows say; a study that is not complete says so."""
    verdict = finding.judge(saved.rows) if saved and saved.rows else None
    if verdict is None or saved is None or len(saved.rows) == saved.num_cells:
        return Judged(finding, verdict)
    share = f"{verdict.measured} (by {len(saved.rows):,} of {saved.num_cells:,} cells)"
    return Judged(finding, verdict._replace(measured=share), open=not saved.missing)


def read_all(studies: Sequence[Study], folder: Path, size: str) -> dict[str, Saved]:
    """What was saved of each study."""
    found = {study.name: read_saved(folder, study.name, size) for study in studies}
    return {name: saved for name, saved in found.items() if saved is not None}


def make_page(studies: Sequence[Study], findings: Sequence[Finding], saved: Mapping[str, Saved], *, size: str) -> Page:
    """The whole report."""
    judged, titles = judge(findings, saved), {study.name: study.title for study in studies}
    page = Page(f"The papers' findings, measured (size {size})")
    page.heading("Overview")
    page.text(_summary(judged))
    page.table(PAPERS, _by_paper(judged))
    page.text(
        "A verdict is computed from the rows of its study. Where a paper speaks of data in general, three of four data "
        "sets must show the same, half of them where it says many; each set's number is given. A study's name leads to "
        "its plots, protocol and command. Nothing here is from the papers' own runs but the numbers in parentheses."
    )
    page.table(COLUMNS, [_line(one, titles) for one in judged], cards=True)
    for study in studies:
        page.heading(study.title)
        _section(page, study, saved.get(study.name), size)
    page.heading("Data and machines")
    page.text(
        "The papers' licensed corpora (Babel Bengali and Cantonese, Broadcast News, the whole of TIMIT) are not here. "
        "Sets that stand in for others say so in their sections; nothing is presented as the original."
    )
    _data(page, saved)
    return page


def results_part(findings: Sequence[Finding], saved: Mapping[str, Saved], *, size: str) -> str:
    """The overview in Markdown, from the same rows."""
    judged = judge(findings, saved)
    parts = [
        f"{WRITTEN} --size {size}`; do not edit. Each number: `bochner study run STUDY --size {size}`.",
        _summary(judged),
        markdown_table(PAPERS, _by_paper(judged)),
        markdown_table(COLUMNS, [_line(one, {}) for one in judged]),
    ]
    return "\n\n".join(parts) + "\n"


def _summary(judged: Sequence[Judged]) -> str:
    counts = Counter(map(_word, judged))
    seen = f"{counts['yes']} are seen here too, {counts['no']} are not, {counts[NOT_MEASURED]} are not measured"
    more = sum(one.open for one in judged)
    return f"{len(judged)} findings: {seen}{f', {more} are judged by a part of their cells' if more else ''}."


def _by_paper(judged: Sequence[Judged]) -> list[list[Cell]]:
    papers: dict[str, Counter[str]] = {}
    for one in judged:
        papers.setdefault(one.finding.source.partition(",")[0], Counter())[_word(one)] += 1
    return [
        [name, found.total(), found["yes"], found["no"], found.total() - found["yes"] - found["no"]]
        for name, found in papers.items()
    ]


def _word(one: Judged) -> str:
    if one.verdict is None:
        return NOT_MEASURED
    return ("so far " if one.open else "") + ("yes" if one.verdict.holds else "no")


def _line(one: Judged, titles: Mapping[str, str]) -> list[Cell]:
    word = _word(one)
    measured, name = one.verdict.measured if one.verdict else "-", one.finding.study
    study: Cell = Link(name, titles[name]) if name in titles else name
    tone = {"yes": "good", "no": "bad"}.get(word, "open")
    return [one.finding.claim, one.finding.source, measured, study, Mark(word, tone)]  # type: ignore[arg-type]


def _section(page: Page, study: Study, saved: Saved | None, size: str) -> None:
    page.note(f"{study.source}. Study {study.name}.")
    if saved is None or not saved.rows:
        page.text("Not measured at this size.")
    else:
        study.show(page, saved.rows)
        if len(saved.rows) < saved.num_cells:
            page.text(f"{len(saved.rows):,} of {saved.num_cells:,} cells are measured.")
    for name in saved.missing if saved else ():
        page.text(f"The file {name} was not there: what it holds is not measured.")
    page.note(f"Protocol: {study.protocol}")
    page.code(saved.command if saved else f"bochner study run {study.name} --size {size}")


def _data(page: Page, saved: Mapping[str, Saved]) -> None:
    runs = {str(run): run for one in saved.values() for run in one.runs}.values()
    checksums = {name: value for run in runs for name, value in run.get("data", {}).items()}
    page.table(["file", "SHA-256"], [[name, value] for name, value in sorted(checksums.items())])
    page.table(["study", "cells asked for", "commit", "machine", "libraries"], [_run(run) for run in runs])


def _run(run: Mapping[str, Any]) -> list[Cell]:
    if "note" in run:  # cells that were brought from another ledger
        return [run["study"], run["cells"], "-", run["note"], "-"]
    machine = run["machine"]
    kind = f"{machine['processor']}, {machine['cores']} cores, {machine['threads']} threads"
    libraries = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    commit = run["commit"][:10] + (" + changes" if "changes" in run["commit"] else "") if run["commit"] else "-"
    gpu = f", {machine['gpu']}" if machine["gpu"] else ""
    return [run["study"], run["cells"], commit, kind + gpu, f"bochner {run['bochner']}, {libraries}"]
