"""`bochner asr`: acoustic models, kernels against networks. What needs the extra is imported when it runs."""

from __future__ import annotations

from typing import Any

from bochner.cli.asr.compare import compare
from bochner.cli.asr.kaldi import kaldi
from bochner.cli.asr.list import list_recipes
from bochner.cli.asr.run import run

ASR: dict[str, Any] = {
    "_help": "Kernel acoustic models against networks, from a corpus to error rates: run, compare, list, kaldi.",
    "run": run,
    "compare": compare,
    "list": list_recipes,
    "kaldi": kaldi,
}
