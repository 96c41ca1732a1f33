"""How times grow with the size of a problem: `python -m benchmarks.growth [--device cuda]`.

Doubles one size at a time, and fits the exponent of the time over the three largest sizes. Prints a table and draws
docs/assets/growth.png. CPU seconds of one thread, which other processes disturb little, or seconds on a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.solvers import fit_exact_ridge, fit_landmark_ridge, fit_ridge

FIGURE = Path(__file__).parents[1] / "docs" / "assets" / "growth.png"
KERNEL = Gaussian(bandwidth=5.0)
POINTS_FITTED = 3


class Curve(NamedTuple):
    """Seconds of `job(size)` for the sizes, and the exponent that the count of operations has for large ones."""

    job: str
    size: str
    run: Callable[[int, str], Callable[[], object]]
    sizes: list[int]
    expected: float


def normal(n: int, d: int, device: str) -> Tensor:
    return torch.randn(n, d, generator=Generator().manual_seed(n + d)).to(device)


def product(size: str) -> Callable[[int, str], Callable[[], object]]:
    def prepare(value: int, device: str) -> Callable[[], object]:
        n, m, d, outputs = (value if name == size else usual for name, usual in PRODUCT.items())
        X, Y, V = normal(n, d, device), normal(m, d, device), normal(m, outputs, device)
        return lambda: KERNEL.matmul(X, Y, V)

    return prepare


def rows(n: int, device: str, d: int = 20) -> ArraySource:
    X = normal(n, d, device)
    return ArraySource(X, X[:, :2].sin())


def landmarks(size: str) -> Callable[[int, str], Callable[[], object]]:
    def prepare(value: int, device: str) -> Callable[[], object]:
        n, m = (value, 500) if size == "n" else (16_000, value)
        source = rows(n, device)
        options = {"alpha": 1e-2, "tolerance": 1e-12, "max_iterations": 10, "memory_budget": 0}
        return lambda: fit_landmark_ridge(KERNEL, normal(m, 20, device), source, **options)  # type: ignore[arg-type]

    return prepare


def exact(value: int, device: str) -> Callable[[], object]:
    source = rows(value, device)
    return lambda: fit_exact_ridge(KERNEL, source, alpha=1e-3 / value)


def features(size: str) -> Callable[[int, str], Callable[[], object]]:
    def prepare(value: int, device: str) -> Callable[[], object]:
        n, width = (value, 1000) if size == "n" else (8_000, value)
        source = rows(n, device)
        generator = Generator().manual_seed(0)
        z = FourierMap.draw(KERNEL, num_inputs=20, num_features=width, generator=generator).to(device)
        return lambda: fit_ridge(z, source, alpha=1e-5)

    return prepare


PRODUCT = {"n": 4000, "m": 4000, "d": 20, "outputs": 10}
CURVES = [
    Curve("product k(X, Y) V", "n", product("n"), [2000 * 2**k for k in range(5)], 1),
    Curve("product k(X, Y) V", "m", product("m"), [2000 * 2**k for k in range(5)], 1),
    Curve("product k(X, Y) V", "d", product("d"), [64 * 2**k for k in range(6)], 1),
    Curve("product k(X, Y) V", "outputs", product("outputs"), [32 * 2**k for k in range(6)], 1),
    Curve("landmark ridge, 10 iterations", "n", landmarks("n"), [4000 * 2**k for k in range(5)], 1),
    Curve("landmark ridge, 10 iterations", "m", landmarks("m"), [125 * 2**k for k in range(5)], 1),
    Curve("exact ridge", "n", exact, [1000 * 2**k for k in range(4)], 3),
    Curve("ridge on features", "n", features("n"), [4000 * 2**k for k in range(5)], 1),
    Curve("ridge on features", "D", features("D"), [500 * 2**k for k in range(4)], 2),
]


def seconds(call: Callable[[], object], device: str) -> float:
    """The least of three calls, after one that is not counted."""
    best = float("inf")
    for _ in range(4):
        start = time.process_time() if device == "cpu" else time.perf_counter()
        call()
        if device != "cpu":
            torch.cuda.synchronize()
        end = time.process_time() if device == "cpu" else time.perf_counter()
        best = min(best, end - start)
    return best


def exponent(sizes: list[int], times: list[float]) -> float:
    """The slope of log time against log size over the largest sizes.

    >>> round(exponent([1, 2, 4, 8], [9.0, 1.0, 4.0, 16.0]), 3)
    2.0
    """
    slope, _ = np.polyfit(np.log(sizes[-POINTS_FITTED:]), np.log(times[-POINTS_FITTED:]), 1)
    return float(slope)


def draw(found: list[tuple[Curve, list[float]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4))
    axes = figure.subplots()
    for curve, times in found:
        relative = [size / curve.sizes[0] for size in curve.sizes]
        label = f"{curve.job}: {curve.size}, exponent {exponent(curve.sizes, times):.2f}"
        axes.loglog(relative, times, marker="o", markersize=3, label=label)
    axes.set(xlabel="size, relative to the smallest", ylabel="seconds")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    axes.grid(alpha=0.3)
    figure.savefig(FIGURE, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-figure", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    print(
        "| job | size | from | to | seconds at the largest | exponent | expected |\n|---|---|---:|---:|---:|---:|---:|"
    )
    for curve in CURVES:
        times = [seconds(curve.run(size, arguments.device), arguments.device) for size in curve.sizes]
        found.append((curve, times))
        low, high = f"{curve.sizes[0]:,}", f"{curve.sizes[-1]:,}"
        slope = exponent(curve.sizes, times)
        print(f"| {curve.job} | {curve.size} | {low} | {high} | {times[-1]:.2f} | {slope:.2f} | {curve.expected:g} |")
    if not arguments.no_figure:
        draw(found)


if __name__ == "__main__":
    main()
