"""`bochner study`: the papers' tables and figures. What they need is imported when they run."""

from __future__ import annotations

from typing import Any

from bochner.cli.study.all import run_all
from bochner.cli.study.list import list_studies
from bochner.cli.study.report import report
from bochner.cli.study.run import run

STUDY: dict[str, Any] = {
    "_help": "The papers' tables and figures on data at hand, and a report of which findings hold.",
    "list": list_studies,
    "run": run,
    "all": run_all,
    "report": report,
}
