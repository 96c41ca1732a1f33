"""docs/reliability.md: outcomes of fault trials and of reading damaged files."""

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

    Without `fuzz`, its section is that of the `previous` page, as is the last one, of other measurements.
    """
    kinds = dict.fromkeys(trial["kind"] for trial in trials)
    faults = [_row(kind, [trial for trial in trials if trial["kind"] == kind]) for kind in kinds]
    by_name = [_configuration(name, options[name], trials) for name in options]
    changes = [trial["change"] for trial in trials if trial["kind"] == "changed data"]
    text = INTRODUCTION.format(**where) + "\n".join(faults) + "\n" + EXPLANATION
    text += _ends(trials) + CONFIGURATIONS + "\n".join(line for line in by_name if line) + "\n"
    if changes:
        text += "\n" + fill(f"Changes of data: {', '.join(sorted(set(changes)))}.", 120) + "\n"
    _, files_heading, files = previous.partition("\n## Damaged and hostile files\n")
    files, tests_heading, tests = files.partition("\n## Tests\n")
    return text + (_files(fuzz) if fuzz else files_heading + files) + tests_heading + tests


def _ends(trials: list[Trial]) -> str:
    """The time that runs took to end after SIGTERM, and the load of the machine."""
    ends: dict[bool, list[float]] = {False: [0.0], True: [0.0]}
    for trial in trials:
        if trial["kind"] == "SIGTERM":
            ends["processes" in trial["configuration"]].append(trial["seconds"])
    load = f"Other programs were running; the load average was {os.getloadavg()[0]:.0f} at the end."
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
    """The table of damaged files; any other outcome of a reader is a defect."""
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

- *kill*: SIGKILL, of all processes of the run, at a random time during a whole run, or after the first file that
  it stores; then the same command again, up to three times per run.
- *SIGTERM*: the same with SIGTERM. Orderly is exit code 143 within 10 s, one line of text, and nothing left in the
  temporary directory. Runs that had written their model are not counted.
- *changed data*: SIGKILL after the first checkpoint of the configuration "CSV", then the same command on a changed
  table. Orderly is a one-line error; afterwards the run resumes on the original table.
- *two writers*: two runs with different seeds in one directory, up to a second apart. The stored model must
  be that of the run that reports success; orderly is a one-line error of the other that names the directory.
- *memory limit*, *file size limit*: 1 to 256 MiB of address space more than at the start of the process; files of at
  most 256 bytes to 256 KiB. Orderly is a one-line error; then the same command without the limit. Runs that succeed
  with the limit are not counted.
- *rank kill*: SIGKILL for one of the two processes of `--processes 2 --max_restarts 1`, after the first checkpoint.
- *full disk*: a file system of 2 MiB that is filled after the first checkpoint, and cleared before the command is
  repeated.
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
*Before the first* counts faults before the first file was stored; *phases* is the number of different files that were
the last one stored before a fault.

| configuration | options | models equal after kills | after SIGTERM | before the first | phases |
|---|---|---:|---:|---:|---:|
"""

FILES = """
## Damaged and hostile files

`python -m tests.fuzz` damages a valid file of every format by up to four edits (extreme sizes and numbers, keywords of
the format, aliases, tags, hundreds of brackets), by overwriting, truncating or repeating bytes, or by random content.
Each reader runs in one process with 8 GiB of address space; each file must be read, or be refused within 10 seconds by
an error that names it. Anything else is a defect: another exception, a crash, a hang, or a wrong number of rows. Some
edits leave the file valid; such files are read.

Models and checkpoints contain a SHA-256 checksum of their content and are refused if it differs. Their headers are also
damaged with a valid checksum, to test the checks after it.

| reader | files | read | refused | defects |
|---|---:|---:|---:|---:|
"""
