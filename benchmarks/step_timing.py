"""Wall times of work on a device, and what the device can do at best."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def timed(run: Callable[[], None], device: torch.device, *, rounds: int, warm_up: bool = True) -> list[float]:
    """Seconds of `run` in each round, the device idle before and after."""
    if warm_up:
        run()
    seconds = []
    for _ in range(rounds):
        synchronize(device)
        start = time.perf_counter()
        run()
        synchronize(device)
        seconds.append(time.perf_counter() - start)
    return seconds


def kernel_ms(run: Callable[[], object], *, repeats: int = 10) -> float:
    """Milliseconds of `run` on the GPU, between events, after a warm-up."""
    run()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / repeats


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def ceilings(device: torch.device, *, quick: bool = False) -> dict[str, float]:
    """TFLOP/s of a large square product of random numbers, in each precision, and TB/s of a copy, read and written."""
    size = 512 if quick else 8192 if device.type == "cuda" else 2048
    found = {}
    dtypes = {"float32": torch.float32} | ({"bf16": torch.bfloat16} if device.type == "cuda" else {})
    for name, dtype in dtypes.items():
        A = torch.randn(size, size, device=device).to(dtype)
        out = torch.empty_like(A)
        seconds = min(timed(lambda A=A, out=out: torch.mm(A, A, out=out), device, rounds=5))
        found[f"{name}_tflops"] = 2 * size**3 / seconds / 1e12
    source = torch.randn(16 * size * size, device=device)
    target = torch.empty_like(source)
    seconds = min(timed(lambda: target.copy_(source), device, rounds=5))
    return found | {"copy_tb_per_s": 2 * source.nbytes / seconds / 1e12}
