"""What `bochner asr run` says at its end."""

from __future__ import annotations

import shlex
from pathlib import Path
from textwrap import fill

from bochner.acoustic.report import write_report
from bochner.acoustic.results import Results
from bochner.acoustic.table import all_models, as_text, comparison, protocol
from bochner.cli.report import say

FEW_MODELS = 4  # the comparison shows as many
WIDTH = 120


def show(results: Results, output_dir: Path) -> None:
    """The tables, how they came about, and where to look further."""
    if len({row.model for row in results.rows}) > FEW_MODELS:
        print(f"\n{as_text(all_models(results))}")
    print(f"\n{as_text(comparison(results))}\n\n{fill(protocol(results), WIDTH)}\n", flush=True)
    say("results", str(output_dir / "results.json"))
    say("report", _report(output_dir))
    say("next", shlex.join(["bochner", "transcribe", str(output_dir / "models" / "best"), "AUDIO.wav"]))


def _report(output_dir: Path) -> str:
    """Where the report is, or what it takes to have one."""
    try:
        return str(write_report(output_dir))
    except ImportError as error:
        return f"not written: {error}"
