"""`bochner study list`: what can be run."""

from __future__ import annotations


def list_studies() -> None:
    """Name every study, what it shows, and the table or figure it stands beside.

    Example:

        bochner study list
    """
    from bochner.studies.registry import STUDIES

    for study in STUDIES:
        print(f"{study.name:<27} {study.title}\n{'':<27} {study.source}")
