"""docs/reliability.md: how trials of faults ended, and how readers took damaged files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Trial = dict[str, Any]


def page(trials: list[Trial], where: Mapping[str, Any], options: str, fuzz: Mapping[str, Mapping[str, Any]]) -> str:
    """`fuzz` is what `python -m tests.fuzz` wrote, by reader."""
    kinds = dict.fromkeys(trial["kind"] for trial in trials)
    rows = [_row(kind, [trial for trial in trials if trial["kind"] == kind]) for kind in kinds]
    faults = INTRODUCTION.format(**where, options=options) + "\n".join(rows) + "\n" + EXPLANATION
    return faults + (_files(fuzz) if fuzz else "")


def _row(kind: str, trials: list[Trial]) -> str:
    judged = [trial["equal"] for trial in trials if trial["equal"] is not None]
    said = [trial["said_so"] for trial in trials if "said_so" in trial]
    epochs = [trial["epochs_done"] for trial in trials if "epochs_done" in trial]
    spread = f"{min(epochs)} to {max(epochs)}" if epochs else ""
    equal, line = (f"{sum(values)} of {len(values)}" if values else "" for values in (judged, said))
    return f"| {kind} | {len(trials)} | {spread} | {equal} | {line} |"


def _files(fuzz: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of damaged files; a reader that ended in any other way has a defect."""
    rows = [
        f"| {name} | {ended['count']:,} | {ended.get('read', 0):,} | {ended.get('refused', 0):,} | "
        f"{int('failure' in ended)} |"
        for name, ended in fuzz.items()
    ]
    total = sum(ended["count"] for ended in fuzz.values())
    defects = sum("failure" in ended for ended in fuzz.values())
    return FILES + "\n".join(rows) + f"\n| all {len(fuzz)} | {total:,} | | | {defects} |\n"


INTRODUCTION = """# Reliability

Written by `python -m benchmarks.reliability`, commit {commit}; do not edit.

**Machine.** {cpu}, {cores} cores, {system}; Python {python}, torch {torch}.

**Protocol.** `bochner train` on 3,000 rows with these options:

    {options}

The model at the end is compared with that of an uninterrupted run, byte by byte.

- *kill*: SIGKILL at a random moment of half the time that the run takes, then the same command again, up to five times
  per run.
- *rank kill*: SIGKILL for one of the two processes of `--processes 2 --max_restarts 1`, after the first checkpoint.
- *full disk*: a file system of 2 MiB that is filled up after the first checkpoint, and cleared before the same command
  is given again.
- *read-only directory*: nothing can be written at all.

| fault | trials | epochs done before it | model bit-equal | error in one line |
|---|---:|---:|---:|---:|
"""

EXPLANATION = """
[Checkpoints](command_line.md#resume) are written to a new file, flushed to disk and then renamed; batches are a
function of the seed, the epoch and the batch's number; and the model is written last. Checkpoints of several processes
are described in [Several processes](distributed.md#checkpoints).
"""

FILES = """
## Damaged and hostile files

`python -m tests.fuzz` damages a good file of every format: up to four edits, among them extremes of sizes and numbers,
text that means something to the format, aliases, tags and brackets by the hundred; or bytes overwritten, cut off,
repeated, or all of them random. Each reader is one process with 8 GiB of addresses; each file must be read, or be
refused within 10 seconds by an error that names it. Anything else is a defect: another exception, a crash, a hang, or
rows that are not as many as announced. Some edits change nothing, or make another good file: those are read.

Models and checkpoints carry a SHA-256 of all they hold, and what differs from it is refused; their headers are damaged
without it, so that what lies behind the checksum is tried as well.

| reader | files | read | refused | defects |
|---|---:|---:|---:|---:|
"""
