"""`bochner asr`: acoustic models, kernels against networks. What needs the extra is imported when it runs."""

from __future__ import annotations

from typing import Any

from bochner.cli.asr.kaldi import kaldi
from bochner.cli.asr.list import list_recipes
from bochner.cli.asr.run import run

ASR: dict[str, Any] = {
    "_help": "Kernel acoustic models against networks, from a corpus to a table of error rates: run, list, kaldi.",
    "run": run,
    "list": list_recipes,
    "kaldi": kaldi,
}
