"""NIST's sclite as a reference, if it is installed (Debian: sctk)."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from bochner.speech.score import Counts

COMMAND = next((words for words in (["sclite"], ["sctk", "sclite"]) if shutil.which(words[0])), None)


def by_utterance(reference: Path, hypothesis: Path) -> dict[str, Counts]:
    """The counts of sclite for two trn files, by utterance."""
    assert COMMAND is not None
    files = ["-r", str(reference), "trn", "-h", str(hypothesis), "trn"]
    options = ["-s", "-e", "utf-8", "-i", "spu_id", "-o", "pra", "stdout"]
    output = subprocess.run([*COMMAND, *files, *options], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^id: \((\S+)\)$", output, re.MULTILINE)
    rows = re.findall(r"^Scores: \(#C #S #D #I\) (\d+) (\d+) (\d+) (\d+)$", output, re.MULTILINE)
    found = {}
    for name, row in zip(names, rows, strict=True):
        correct, substituted, deleted, inserted = map(int, row)
        found[name] = Counts(substituted, deleted, inserted, correct + substituted + deleted)
    return found
