"""Rounds of work on a device, and times of single kernels."""

from __future__ import annotations

import torch

from benchmarks.measure import Run, timed


def rounds_of(run: Run, device: torch.device, *, rounds: int, warm_up: bool = True) -> list[float]:
    """Seconds of `run` in each round."""
    if warm_up:
        run()
    return [timed(run, device) for _ in range(rounds)]


def kernel_ms(run: Run, *, repeats: int = 10) -> float:
    """Milliseconds of `run` on the GPU, between events, after a warm-up."""
    run()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeats
