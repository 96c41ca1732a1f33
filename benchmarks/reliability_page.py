"""docs/reliability.md: how trials of faults ended, and how readers took damaged files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from textwrap import fill
from typing import Any

Trial = dict[str, Any]


def page(
    trials: list[Trial],
    where: Mapping[str, Any],
    options: Mapping[str, str],
    fuzz: Mapping[str, Mapping[str, Any]],
    previous: str,
) -> str:
    """`options` are those of each configuration; `fuzz` is what `python -m tests.fuzz` wrote, by reader.

    Without `fuzz`, its section is that of the `previous` page.
    """
    kinds = dict.fromkeys(trial["kind"] for trial in trials)
    faults = [_row(kind, [trial for trial in trials if trial["kind"] == kind]) for kind in kinds]
    by_name = [_configuration(name, options[name], trials) for name in options]
    changes = [trial["change"] for trial in trials if trial["kind"] == "changed data"]
    text = INTRODUCTION.format(**where) + "\n".join(faults) + "\n" + EXPLANATION
    text += _ends(trials) + CONFIGURATIONS + "\n".join(line for line in by_name if line) + "\n"
    if changes:
        text += "\n" + fill(f"Changes of data: {', '.join(sorted(set(changes)))}.", 120) + "\n"
    if fuzz:
        return text + _files(fuzz)
    _, heading, section = previous.partition("\n## Damaged and hostile files\n")
    return text + heading + section


def _ends(trials: list[Trial]) -> str:
    """How long runs took to end after SIGTERM, and how busy the machine was."""
    ends: dict[bool, list[float]] = {False: [0.0], True: [0.0]}
    for trial in trials:
        if trial["kind"] == "SIGTERM":
            ends["processes" in trial["configuration"]].append(trial["seconds"])
    load = f"Other programs ran on the machine, too: its load average was {os.getloadavg()[0]:.0f} at the end."
    text = f"After SIGTERM, runs of one process ended within {max(ends[False]):.1f} s, of several within "
    return "\n" + fill(f"{text}{max(ends[True]):.1f} s. {load}", 120) + "\n"


def _row(kind: str, trials: list[Trial]) -> str:
    equal, orderly = (_share(trials, name) for name in ("equal", "orderly"))
    return f"| {kind} | {len(trials)} | {equal} | {orderly} |"


def _share(trials: list[Trial], name: str) -> str:
    values = [trial[name] for trial in trials if trial.get(name) is not None]
    return f"{sum(values)} of {len(values)}" if values else ""


def _configuration(name: str, options: str, trials: list[Trial]) -> str:
    own = [trial for trial in trials if trial.get("configuration") == name and "phase" in trial]
    if not own:
        return ""
    killed, ended = ([trial for trial in own if trial["kind"] == kind] for kind in ("kill", "SIGTERM"))
    nothing, phases = sum(trial["phase"] == "nothing" for trial in own), len({trial["phase"] for trial in own})
    parts = [name, f"`{options}`", _share(killed, "equal"), _share(ended, "equal"), f"{nothing}", f"{phases}"]
    return f"| {' | '.join(parts)} |"


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

**Protocol.** `bochner train` on 2,000 rows of three classes, in the configurations of the second table. The model at
the end is compared with that of an uninterrupted run, byte by byte.

- *kill*: SIGKILL, of all processes of the run, at a random moment of the time that a whole run takes, or after the
  first file that it stores; then the same command again, up to three times per run.
- *SIGTERM*: the same with SIGTERM. Orderly is exit code 143 within 10 s, one line of text, and nothing left in the
  temporary directory. Runs that had written their model are not counted.
- *changed data*: SIGKILL after the first checkpoint of the configuration "CSV", then the same command on a table that
  has changed. Orderly is an error in one line; afterwards the run resumes on the table as it was.
- *two writers*: two runs with different seeds in one directory, up to a second apart. The model there must be that of
  the one run that reports success; orderly is an error of the other in one line that names the directory.
- *memory limit*, *file size limit*: 1 to 256 MiB of addresses more than the process has at its start; files of at most
  256 bytes to 256 KiB. Orderly is an error in one line; then the same command without the limit. Runs that succeed
  under the limit are not counted.
- *rank kill*: SIGKILL for one of the two processes of `--processes 2 --max_restarts 1`, after the first checkpoint.
- *full disk*: a file system of 2 MiB that is filled up after the first checkpoint, and cleared before the same command
  is given again.
- *read-only directory*: nothing can be written at all.

| fault | trials | model equal | orderly |
|---|---:|---:|---:|
"""

EXPLANATION = """
[Checkpoints](command_line.md#resume) are written to a new file, flushed to disk and then renamed; batches are a
function of the seed, the epoch and the batch's number; and the model is written last. Checkpoints of several processes
are described in [Several processes](distributed.md#checkpoints).
"""

CONFIGURATIONS = """
*Before the first* counts the faults that came before anything was stored; *phases* how many different files were the
last ones stored when a fault came.

| configuration | options | models equal after kills | after SIGTERM | before the first | phases |
|---|---|---:|---:|---:|---:|
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
