"""All studies, findings and Markdown pages of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from bochner import checks
from bochner.studies import (
    adapted_bases_report,
    feature_selection,
    lowrank,
    lowrank_page,
    map_error,
    nystrom_rff_findings,
    operation_counts,
    speech,
    speech_bottleneck,
    speech_findings,
    speech_tasks,
)
from bochner.studies.findings import Finding
from bochner.studies.study import Study

STUDIES: tuple[Study, ...] = (
    *map_error.STUDIES,
    *nystrom_rff_findings.STUDIES,
    *feature_selection.STUDIES,
    *speech.STUDIES,
    *speech_bottleneck.STUDIES,
    *speech_tasks.STUDIES,
    *lowrank.STUDIES,
    *adapted_bases_report.STUDIES,
    *operation_counts.STUDIES,
)
FINDINGS: tuple[Finding, ...] = (
    *nystrom_rff_findings.FINDINGS,
    *feature_selection.FINDINGS,
    *speech_findings.FINDINGS,
    *speech_bottleneck.FINDINGS,
    *speech_tasks.FINDINGS,
    *lowrank.FINDINGS,
    *adapted_bases_report.FINDINGS,
    *map_error.FINDINGS,
    *operation_counts.FINDINGS,
)
PAGES: Mapping[str, tuple[str, Callable[..., None]]] = MappingProxyType(
    {
        "lowrank": ("lowrank-spectral-error", lowrank_page.write_page),
        "adapted-bases": ("adapted-bases", adapted_bases_report.write_page),
    }
)
"""By name: a study whose results file holds the cells, and the function that writes the Markdown page."""


def study_named(name: str) -> Study:
    """
    >>> study_named("kernel-spectra").source
    'May 2018, Figure 6.2'
    """
    studies = {study.name: study for study in STUDIES}
    checks.one_of("name", name, studies)
    return studies[name]
