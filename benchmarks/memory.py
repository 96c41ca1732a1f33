"""Peak memory of a call. Imports nothing large, so that the baseline of a fresh process is small."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_of(run: Callable[[], object]) -> int:
    """Bytes that `run` adds to the resident set of this process, at its peak."""
    gc.collect()
    with suppress(OSError):  # reset the peak of the preparation where the kernel allows it
        Path("/proc/self/clear_refs").write_text("5")
    before = peak_bytes()
    run()
    return peak_bytes() - before


def peak_bytes() -> int:
    """The largest resident set of this process."""
    # ru_maxrss only as a fallback: on Linux a new process inherits that of its parent.
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
