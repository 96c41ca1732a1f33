"""Times, peak memory and the machine they were measured on."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
import torch

from benchmarks.memory import peak_of

Run = Callable[[], object]
CPU = torch.device("cpu")

PAUSE = 0.03  # threads of one library may still spin when the next one starts


class Spread(NamedTuple):
    """The middle, minimum and maximum of some measurements."""

    middle: float
    low: float
    high: float


def spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def interleaved(runs: Mapping[str, Run], repeats: int, *, device: torch.device = CPU) -> dict[str, list[float]]:
    """Seconds of each run in each of `repeats` rounds A, B, .., A, B, ..: drift of the machine affects all equally."""
    for run in runs.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(PAUSE)
            times[name].append(timed(run, device))
    return times


def timed(run: Run, device: torch.device) -> float:
    """Seconds of `run`, the device idle before and after."""
    synchronize(device)
    start = time.perf_counter()
    run()
    synchronize(device)
    return time.perf_counter() - start


def best_seconds(run: Run, device: torch.device, *, rounds: int = 5) -> float:
    """The minimum over the rounds, after a warm-up."""
    run()
    return min(timed(run, device) for _ in range(rounds))


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def ratio(
    above: list[float], below: list[float], *, middle: Callable[[list[float]], float] = statistics.median
) -> Spread:
    """The ratio of the medians (or of another `middle`), with the smallest and the largest ratio within one round."""
    rounds = [a / b for a, b in zip(above, below, strict=True)]
    return Spread(middle(above) / middle(below), min(rounds), max(rounds))


def peak_memory(prepare: Callable[..., Run], *args: Any) -> int:
    """Bytes that a run adds to the resident set of a fresh process, at its peak.

    `prepare(*args)`, a function of a module, builds inputs and fitted objects in the new process and returns the run.
    The result is the peak during the run minus the resident set just before it: the inputs do not count.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_increment, prepare, args).result()


def _peak_increment(prepare: Callable[..., Run], args: tuple[Any, ...]) -> int:
    return peak_of(prepare(*args))


def machine() -> dict[str, str | int | float]:
    """The machine and versions; `load` is the number of other busy processes over the last minute."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "sklearn": sklearn.__version__,
        "torch_threads": torch.get_num_threads(),
        "commit": _commit(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _commit() -> str:
    """The commit of this checkout, with "-dirty" when files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
