"""Products with kernel matrices and the solvers on them, on one GPU: `python -m benchmarks.products [ROWS ...]`.

ROWS are names of `MEASUREMENTS`, all by default. Data are made, of the shapes of published runs; each line is printed
when it is measured. The epoch with a million landmarks is computed from measured steps.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Generator, Tensor

from bochner import KernelClassifier
from bochner.adaptation.metric import gradient_outer_product
from bochner.data import ArraySource
from bochner.kernels import Gaussian, Kernel, Laplacian, Matern
from bochner.models import LandmarkModel
from bochner.solvers import eigenpro as solver
from bochner.solvers import fit_askotch, fit_eigenpro, fit_exact_ridge, fit_landmark_ridge
from bochner.solvers.eigenpro import EigenCorrection

DEVICE = "cuda"
NUM_CLASSES = 10


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, device=DEVICE, generator=Generator(DEVICE).manual_seed(seed))


def made_rows(n: int, d: int) -> tuple[Tensor, Tensor]:
    """Standard normal inputs; the class is the largest of ten smooth functions, with a tenth of the labels drawn."""
    X = normal(n, d)
    directions = normal(d, NUM_CLASSES, seed=1) / d**0.5
    y = torch.cat([torch.sin(2 * part @ directions).argmax(dim=1) for part in X.split(2**18)])
    wrong = torch.rand(n, device=DEVICE, generator=Generator(DEVICE).manual_seed(2)) < 0.1
    return X, torch.where(wrong, torch.randint(NUM_CLASSES, (n,), device=DEVICE), y)


@contextmanager
def measured() -> Iterator[Callable[[], float]]:
    """The seconds of the block, once it has ended, until the GPU is idle."""
    torch.cuda.synchronize()
    start, end = time.perf_counter(), [0.0]
    yield lambda: end[0] - start
    torch.cuda.synchronize()
    end[0] = time.perf_counter()


def seconds(call: Callable[[], object], repetitions: int = 3) -> float:
    """The least time of a call, after one that is not counted."""
    call()
    best = float("inf")
    for _ in range(repetitions):
        with measured() as elapsed:
            call()
        best = min(best, elapsed())
    return best


def products() -> None:
    """Entries of k(X, Y) a second: the fused kernel, and torch with tiles of 1 GB in float32."""
    print("| kernel | inputs | outputs | fused | torch |\n|---|---:|---:|---:|---:|")
    n, m = 2**18, 20_000
    kernels: list[Kernel] = [Gaussian(), Matern(smoothness=0.5), Matern(smoothness=2.5), Laplacian()]
    for kernel in kernels:
        shapes = ((50, 10),) if kernel is not kernels[0] else ((10, 10), (50, 10), (50, 64), (128, 10), (784, 10))
        for d, outputs in shapes:
            if isinstance(kernel, Laplacian):
                n = 2**16
            X, Y, V = normal(n, d), normal(m, d, seed=1), normal(m, outputs, seed=2)
            k = type(kernel)(**{**vars_of(kernel), "bandwidth": 2 * d**0.5})

            def tiles(k: Kernel = k, X: Tensor = X, Y: Tensor = Y, V: Tensor = V) -> None:
                for rows in X.split(2**28 // m):
                    k(rows, Y) @ V

            fused = n * m / seconds(lambda k=k, X=X, Y=Y, V=V: k.matmul(X, Y, V))  # type: ignore[misc]
            print(f"| {k} | {d} | {outputs} | {fused:.2g} | {n * m / seconds(tiles, 1):.2g} |", flush=True)


def vars_of(kernel: Kernel) -> dict[str, float]:
    return {"smoothness": kernel.smoothness} if isinstance(kernel, Matern) else {}


def landmarks() -> None:
    """2,000,000 x 50 rows, 10 classes, 20,000 landmarks: Falkon's problem."""
    X, y = made_rows(2_050_000, 50)
    test, X, y = (X[2_000_000:], y[2_000_000:]), X[:2_000_000], y[:2_000_000]
    centres = X[torch.randperm(len(X), generator=Generator().manual_seed(0))[:20_000]]
    last: list[tuple[int, float]] = []
    for attempt in ("first call", "second call"):
        with measured() as elapsed:
            model = fit_landmark_ridge(
                Gaussian(bandwidth=10.0), centres, ArraySource(X, y), num_classes=NUM_CLASSES,
                report=lambda *record: last.append(record),
            )  # fmt: skip
        error = float((model.decision(test[0]).argmax(dim=1) != test[1]).double().mean())
        print(
            f"| fit_landmark_ridge, {attempt} | {elapsed():.1f} s | {last[-1]} | test error {error:.4f} |", flush=True
        )
    X, y = X.cpu(), y.cpu()
    options = {"preset": None, "solver": "landmarks", "n_components": 20_000, "random_state": 0, "verbose": False}
    with measured() as elapsed:
        estimator = KernelClassifier(**options, solver_params={"device": DEVICE}).fit(X, y)
    error = 1 - float(estimator.score(test[0].cpu(), test[1].cpu()))
    print(f"| KernelClassifier(solver='landmarks') | {elapsed():.1f} s | | test error {error:.4f} |", flush=True)


def exact() -> None:
    """Kernel ridge regression on all rows: the factor in float32, and by blocks where it does not fit."""
    kernel = Matern(smoothness=0.5, bandwidth=10.0)
    for fit, n in (
        (fit_exact_ridge, 2000),
        (fit_exact_ridge, 75_000),
        (fit_exact_ridge, 130_000),
        (fit_askotch, 500_000),
    ):
        X, y = made_rows(n, 20)
        torch.cuda.reset_peak_memory_stats()
        with measured() as elapsed, warnings.catch_warnings(record=True) as caught:
            model = fit(kernel, ArraySource(X, y), num_classes=NUM_CLASSES, alpha=0.1 / n)  # type: ignore[operator]
        rows = torch.randperm(n, generator=Generator().manual_seed(1))[:2000].to(DEVICE)
        target = torch.nn.functional.one_hot(y[rows], NUM_CLASSES).double() - model.bias.double()
        wide = kernel.matmul(X[rows].double(), X.double(), model.coefficients.double())
        left = float((wide + 0.1 * model.coefficients[rows].double() - target).norm() / target.norm())
        notes = f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB, {len(caught)} warnings"
        print(
            f"| {fit.__name__} | {n:,} | {elapsed():.1f} s | residual {left:.1g} | {notes} |",
            flush=True,
        )
        del model, wide
        torch.cuda.empty_cache()


def eigenpro() -> None:
    """One epoch of the shapes of EigenPro's README with 65,536 landmarks."""
    kernel, outputs = Matern(smoothness=0.5, bandwidth=20.0), {"num_classes": NUM_CLASSES, "max_epochs": 1}
    for name, n, d in (("CIFAR-5M", 5_000_000, 1280), ("LibriSpeech", 10_000_000, 1024)):
        X, y = made_rows(n + 10_000, d)
        test, X, y = (X[n:], y[n:]), X[:n], y[:n]
        centres = X[torch.randperm(n, generator=Generator().manual_seed(0))[:65_536].to(DEVICE)]
        with measured() as compiling:  # on 1 % of the rows
            fit_eigenpro(kernel, centres, ArraySource(X[: n // 100], y[: n // 100]), **outputs)  # type: ignore[arg-type]
        with measured() as elapsed:
            model = fit_eigenpro(kernel, centres, ArraySource(X, y), **outputs)  # type: ignore[arg-type]
        error = float((model.decision(test[0]).argmax(dim=1) != test[1]).double().mean())
        print(
            f"| {name}, {n:,} x {d} | {len(centres):,} | {elapsed():.1f} s | first call on 1 %: {compiling():.1f} s "
            f"| test error {error:.4f} | {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB |",
            flush=True,
        )
        del X, y, test, centres, model
        torch.cuda.empty_cache()


def million() -> None:
    """An epoch of 5,000,000 x 1,280 rows with 1,024,000 landmarks, from measured steps and batches of projections."""
    n, d, m = 5_000_000, 1280, 1_024_000
    kernel, generator = Matern(smoothness=0.5, bandwidth=20.0), Generator().manual_seed(0)
    X, y = made_rows(1_100_000, d)
    targets = torch.nn.functional.one_hot(y, NUM_CLASSES).to(X) - 1 / NUM_CLASSES
    with measured() as starting:
        correction = EigenCorrection(kernel, X[m : m + 2048], max_batch=8192, generator=generator)
        size = correction.batch_size
        delay = solver.ROWS_PER_LANDMARK * m // size
        descent = solver._Descent(kernel, X[:m], NUM_CLASSES, correction, max_points=delay * size, generator=generator)
    rows = slice(m + 2048, m + 2048 + size)

    def step() -> None:
        descent.add(X[rows], targets[rows], torch.ones(size, 1, device=DEVICE))

    def times(call: Callable[[], object], repetitions: int = 3) -> float:
        call()
        with measured() as elapsed:
            for _ in range(repetitions):
                call()
        return elapsed() / repetitions

    empty = times(step)
    for _ in range(delay // 2 // 20):  # half of the points: copies of rows of other batches
        for start in range(0, 20 * size, size):
            descent.centers.append(descent.centers.prepare(X[start : start + size]))
    half = times(step)

    def project() -> None:
        part, (K, to_sample) = descent.batches[0], descent.blocks[0]
        residual = K.times(descent.coefficients) - descent.added[part]
        descent.inner.inside(to_sample.adjoint(residual))

    batch = times(project)
    projections = -(-n // (delay * size))
    passes = projections * solver.MAX_PASSES * len(descent.batches)
    total = starting() + n / size * half + passes * batch
    print(
        f"| {n:,} x {d} | {m:,} | batches of {size}: {1e3 * empty:.1f} ms without points, {1e3 * half:.1f} ms "
        f"with {delay * size // 2:,} | {projections} x {solver.MAX_PASSES} passes of {len(descent.batches)} batches, "
        f"{1e3 * batch:.1f} ms each | start {starting():.1f} s, steps {n / size * half:.0f} s, projections "
        f"{passes * batch:.0f} s, epoch {total:.0f} s | {torch.cuda.max_memory_allocated() / 2**30:.0f} GiB |",
        flush=True,
    )


def gradients() -> None:
    """Average gradient outer products of a model with 20,000 landmarks, 50 inputs and 10 outputs on 1,000,000 rows."""
    X = normal(1_000_000, 50)
    for kernel in (Gaussian(bandwidth=10.0), Matern(smoothness=0.5, bandwidth=10.0)):
        model = LandmarkModel(kernel, X[:20_000], normal(20_000, 10, seed=1), torch.zeros(10, device=DEVICE))
        source = ArraySource(X, torch.zeros(len(X), device=DEVICE))
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        with measured() as elapsed:
            gradient_outer_product(model, source, num_rows=len(X), generator=Generator().manual_seed(0))
        peak = (torch.cuda.max_memory_allocated() - before) / 2**30
        print(f"| {kernel} | {elapsed():.1f} s | {peak:.1f} GiB beside rows and model |", flush=True)


MEASUREMENTS: dict[str, Callable[[], None]] = {
    "products": products, "landmarks": landmarks, "exact": exact, "eigenpro": eigenpro,
    "million": million, "gradients": gradients,
}  # fmt: skip


def main() -> None:
    for name in sys.argv[1:] or MEASUREMENTS:
        measurement = MEASUREMENTS[name]
        print(f"\n{name}: {measurement.__doc__}\n", flush=True)
        measurement()


if __name__ == "__main__":
    main()
