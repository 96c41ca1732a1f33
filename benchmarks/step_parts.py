"""The time of the parts of a step on a GPU, and the fastest tiles."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.step_contenders import Trained, padded
from benchmarks.step_problem import Problem
from benchmarks.step_timing import kernel_ms
from bochner.ops import cosine_scores, fused, long_product
from bochner.ops.fused.primitives import Tiles

FEATURE_TILES = [
    Tiles(128, 256, 64, 8, 4),
    Tiles(128, 256, 64, 8, 3),
    Tiles(128, 256, 32, 8, 6),
    Tiles(128, 128, 64, 4, 2),
]
UPDATE_TILES = [
    Tiles(128, 128, 32, 4, 4),
    Tiles(64, 128, 32, 4, 4),
    Tiles(128, 128, 64, 4, 3),
    Tiles(128, 128, 64, 8, 3),
]


def time_parts(problem: Problem, *, rows: int) -> dict[str, float]:
    """Milliseconds of each operation on `rows` rows, in bfloat16, by its name."""
    parts = _Parts(problem, rows)
    found = {name: kernel_ms(run) for name, run in parts.runs().items()}
    for name, ms in found.items():
        print(f"{problem.shape.name:6} part {name:32} {ms:8.4f} ms", flush=True)
    return found


def tune(problem: Problem, *, rows: int) -> dict[str, float]:
    """Milliseconds of the kernels for each of their tiles."""
    parts = _Parts(problem, rows)
    runs = {f"features {tuple(t)}": (lambda t=t: parts.features(tiles=t)) for t in FEATURE_TILES}
    runs |= {f"update {tuple(t)}": (lambda t=t: parts.update(tiles=t)) for t in UPDATE_TILES}
    found = {}
    for name, run in runs.items():
        try:
            found[name] = kernel_ms(run, repeats=5)
        except Exception as error:  # a tile may not fit the chip; continue with the others
            print(f"{problem.shape.name} {name}: {type(error).__name__}", flush=True)
            continue
        print(f"{problem.shape.name:6} tune {name:40} {found[name]:8.4f} ms", flush=True)
    return found


KINDS = {
    "features": ("_cosines",),
    "update": ("_update",),
    "softmax": ("_softmax_rows",),
    "products": ("nvjet", "gemm", "cutlass", "splitK", "xmma"),
}


def profile(problem: Problem, *, steps: int) -> dict[str, float]:
    """Microseconds of GPU time per training step by kind of kernel; "rest" is everything else."""
    contender = Trained(problem, "bf16")
    X, y = (part[: steps * problem.shape.batch_size] for part in (problem.X.bfloat16(), problem.y))
    for _ in range(3):  # compiled, captured
        contender.take(X, y)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        contender.take(X, y)
        torch.cuda.synchronize()
    found = dict.fromkeys([*KINDS, "rest"], 0.0)
    for event in profiler.key_averages():
        kind = next((kind for kind, names in KINDS.items() if any(name in event.key for name in names)), "rest")
        found[kind] += event.self_device_time_total / steps
    print(
        f"{problem.shape.name:6} profile, us/step: " + ", ".join(f"{k} {v:.0f}" for k, v in found.items()), flush=True
    )
    return found


class _Parts:
    def __init__(self, problem: Problem, rows: int) -> None:
        self.shape, self.y = problem.shape, problem.y[:rows]
        self.X, self.W, self.b = problem.X[:rows].bfloat16(), problem.W.bfloat16(), problem.b
        self.weights = problem.head[0].clone()
        self.copy = padded(self.weights, torch.bfloat16)
        self.Z = self.features()
        self.G = torch.randn(rows, len(self.weights), device=self.X.device).div_(1e4)

    def runs(self) -> dict[str, Callable[[], object]]:
        n, B = len(self.Z), self.shape.batch_size
        scores = torch.randn(n, self.shape.num_classes, device=self.X.device)
        return {
            f"features, {n} rows": self.features,
            f"features, {B} rows": lambda: fused.cosine_features(
                self.X[:B], self.W, self.b, amplitude=self.shape.amplitude
            ),
            f"product, {n} rows": lambda: long_product(self.Z, self.copy),
            f"product, {2 * B} rows": lambda: long_product(self.Z[: 2 * B], self.copy),
            f"product, {B} rows": lambda: long_product(self.Z[:B], self.copy),
            f"rows against rows, {B} x {B}": lambda: long_product(self.Z[:B], self.Z[B : 2 * B]),
            f"rows against rows, {B} x {4 * B}": lambda: long_product(self.Z[:B], self.Z[B : 5 * B]),
            f"update, {n} rows": self.update,
            f"update, {2 * B} rows": lambda: self.update(rows=2 * B),
            f"update, {B} rows": lambda: self.update(rows=B),
            f"softmax, {B} rows": lambda: fused.softmax_rows(scores[:B], self.y[:B]),
            f"scores for prediction, {n} rows": self.scores,
        }

    def features(self, **tiles: Tiles) -> Tensor:
        return fused.cosine_features(self.X, self.W, self.b, amplitude=self.shape.amplitude, **tiles)

    def scores(self) -> Tensor:
        return cosine_scores(self.X, self.W, self.b, self.copy, amplitude=self.shape.amplitude)

    def update(self, rows: int | None = None, **tiles: Tiles) -> None:
        fused.update_head(self.weights, self.G[:rows], self.Z[:rows], rate=1e-6, copy=self.copy, **tiles)
