"""All studies and all findings."""

from __future__ import annotations

from bochner import checks
from bochner.studies import feature_selection_cells, map_error_cells
from bochner.studies.adapted_bases import findings as adapted_findings
from bochner.studies.adapted_bases import studies as adapted_studies
from bochner.studies.findings import Finding
from bochner.studies.lowrank import findings as lowrank_findings
from bochner.studies.lowrank import studies as lowrank_studies
from bochner.studies.nystrom_rff import findings as nystrom_findings
from bochner.studies.nystrom_rff import studies as nystrom_studies
from bochner.studies.speech import findings as speech_findings
from bochner.studies.speech import studies as speech_studies
from bochner.studies.study import Study

STUDIES: tuple[Study, ...] = (
    *map_error_cells.STUDIES,
    *nystrom_studies.STUDIES,
    *feature_selection_cells.STUDIES,
    *speech_studies.STUDIES,
    *lowrank_studies.STUDIES,
    *adapted_studies.STUDIES,
)
FINDINGS: tuple[Finding, ...] = (
    *nystrom_findings.FINDINGS,
    *feature_selection_cells.FINDINGS,
    *speech_findings.FINDINGS,
    *lowrank_findings.FINDINGS,
    *adapted_findings.FINDINGS,
    *map_error_cells.FINDINGS,
)


def study_named(name: str) -> Study:
    """
    >>> study_named("kernel-spectra").source
    'May 2018, Figure 6.2'
    """
    known = {study.name: study for study in STUDIES}
    checks.one_of("name", name, known)
    return known[name]
