"""Runs cells one after another, each in a process with limits of time and memory; finished cells are skipped."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

POLL_SECONDS = 0.2
MAX_WALL = 4.0  # wall seconds per second of the time limit
THREAD_VARIABLES = ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"]
ROOT = Path(__file__).parents[2]


class Cell(NamedTuple):
    set: str
    split: int
    contender: str


@dataclass(frozen=True)
class Limits:
    seconds: float = 1200.0  # CPU seconds per thread of the whole process: reading, fitting, predicting
    gibibytes: float = 12.0  # of its resident set


@dataclass(frozen=True)
class Runner:
    """Runs cells and stores one JSON file per cell, `results/CONTENDER/SET-SPLIT.json`, written atomically."""

    results: Path
    data: Path
    threads: int = 1
    device: str = "cpu"
    limits: Limits = Limits()
    jobs: int = 1  # fits at a time, for the record

    def path(self, cell: Cell) -> Path:
        return self.results / cell.contender / f"{cell.set}-{cell.split}.json"

    def run(self, cell: Cell) -> dict[str, Any]:
        target = self.path(cell)
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            record = self._run_process(cell, Path(folder))
        partial = target.with_suffix(f".{os.getpid()}.partial")
        record["jobs"] = self.jobs
        partial.write_text(json.dumps(record, indent=1) + "\n")
        partial.replace(target)
        return record

    def _run_process(self, cell: Cell, folder: Path) -> dict[str, Any]:
        output, log = folder / "record.json", folder / "log.txt"
        options = {"name": cell.set, "split": cell.split, "contender": cell.contender, "output": str(output)}
        options |= {"data": str(self.data), "threads": self.threads, "device": self.device}
        command = [sys.executable, "-m", "benchmarks.tabular.cell", json.dumps(options)]
        environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(self.threads))
        with log.open("w") as stream:
            process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment, cwd=ROOT)
            try:
                failure = self._watch(process)
            finally:
                process.kill()
                process.wait()
        if output.exists():
            return json.loads(output.read_text())
        error = failure or f"exit status {process.returncode}: {log.read_text(errors='replace')[-2000:]}"
        return cell._asdict() | {"threads": self.threads, "error": error}

    def _watch(self, process: subprocess.Popen[bytes]) -> str | None:
        """The reason to stop the process, or None when it has ended.

        The limit is in CPU seconds, since other processes may slow this one down; a process that waits forever is also
        stopped.
        """
        start = time.monotonic()
        while process.poll() is None:
            waited = time.monotonic() - start
            seconds = max(_cpu_seconds(process.pid) / self.threads, waited / MAX_WALL)
            if seconds > self.limits.seconds:
                return f"time limit of {self.limits.seconds:g} s"
            if _resident_bytes(process.pid) > self.limits.gibibytes * 2**30:
                return f"memory limit of {self.limits.gibibytes:g} GiB"
            time.sleep(POLL_SECONDS)
        return None


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # user and system time, proc(5)


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):  # the process has just ended, or there is no /proc
        return 0
    return pages * resource.getpagesize()
