"""`fit_eigenpro` compared with the EigenPro repository: `python -m benchmarks.eigenpro --repository PATH`.

PATH is a checkout of github.com/EigenPro/EigenPro (with its own requirements installed); without it only the solvers of
bochner are measured. The data are synthetic, in main memory: 40 clusters of 10 classes, in 20 dimensions by default.
Prints the squared error on 4,000 test rows, wall seconds of a second call on a GPU and CPU seconds of one on a CPU; use
one thread there.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn.functional import one_hot

from bochner.data import ArraySource
from bochner.kernels import Matern
from bochner.solvers import fit_eigenpro, fit_landmark_ridge

NUM_CLASSES, NUM_CLUSTERS, TEST_ROWS = 10, 40, 4000
MAX_RIDGE_LANDMARKS = 20_000  # it factorises their kernel matrix in float64


def made_rows(count: int, generator: Generator, centers: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    cluster = torch.randint(NUM_CLUSTERS, (count,), generator=generator)
    return centers[cluster] + 0.9 * torch.randn(count, centers.shape[1], generator=generator), labels[cluster]


def peer(
    landmarks: Tensor, X: Tensor, y: Tensor, test: tuple[Tensor, Tensor], epochs: int, bandwidth: float, on_gpu: bool
) -> Callable[..., Tensor]:
    """EigenPro's own code with the settings of its example."""
    from eigenpro.models import sharded_kernel_machine
    from eigenpro.utils import device as devices

    from eigenpro import kernels, solver

    def kernel(x: Tensor, z: Tensor) -> Tensor:
        return kernels.laplacian(x, z, bandwidth=bandwidth)

    device = devices.Device.create(use_gpu_if_available=on_gpu)
    model = sharded_kernel_machine.create_sharded_kernel_machine(
        landmarks, NUM_CLASSES, kernel, device, dtype=torch.float32, tmp_centers_coeff=2
    )
    targets, test_targets = one_hot(y, NUM_CLASSES).float(), one_hot(test[1], NUM_CLASSES).float()
    samples = {"n_data_pcd_nyst_samples": 2000, "n_model_pcd_nyst_samples": min(2000, len(landmarks))}
    vectors = {"n_data_pcd_eigenvals": 100, "n_model_pcd_eigenvals": 100}
    solver.fit(
        model, X, targets, test[0], test_targets, device, kernel=kernel, epochs=epochs, accumulated_gradients=True,
        **samples, **vectors,
    )  # fmt: skip
    return lambda x: model.forward(x, train=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repository", help="checkout of EigenPro")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--epochs", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--inputs", type=int, default=20)
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    on_gpu, generator = arguments.device == "cuda", Generator().manual_seed(0)
    # exp(-||x - y|| / bandwidth), which EigenPro calls "laplacian"; 10 for 20 inputs, and of the distances otherwise
    kernel = Matern(smoothness=0.5, bandwidth=10.0 * (arguments.inputs / 20) ** 0.5)
    centers = torch.randn(NUM_CLUSTERS, arguments.inputs, generator=generator)
    labels = torch.randint(NUM_CLASSES, (NUM_CLUSTERS,), generator=generator)
    X, y = made_rows(arguments.rows, generator, centers, labels)
    test = made_rows(TEST_ROWS, generator, centers, labels)
    landmarks = X[torch.randperm(arguments.rows, generator=generator)[: arguments.landmarks]]
    source = ArraySource(X, y)
    own = landmarks.to(arguments.device)
    fits: dict[str, Callable[[], Callable[..., Tensor]]] = {}
    if arguments.landmarks <= MAX_RIDGE_LANDMARKS:
        fits["fit_landmark_ridge"] = lambda: fit_landmark_ridge(kernel, own, source, num_classes=NUM_CLASSES).decision
    for epochs in arguments.epochs:
        fits[f"fit_eigenpro, {epochs} epochs"] = lambda epochs=epochs: (  # type: ignore[misc]
            fit_eigenpro(kernel, own, source, num_classes=NUM_CLASSES, max_epochs=epochs).decision
        )
        if arguments.repository:
            sys.path.insert(0, arguments.repository)
            fits[f"EigenPro, {epochs} epochs"] = lambda epochs=epochs: (  # type: ignore[misc]
                peer(landmarks, X, y, test, epochs, kernel.bandwidth, on_gpu)
            )
    clock = time.perf_counter if on_gpu else time.process_time
    for name, fit in fits.items():
        if on_gpu:
            fit()
        start = clock()
        predict = fit()
        if on_gpu:
            torch.cuda.synchronize()
        seconds = clock() - start
        scores = torch.cat([predict(rows.to(arguments.device)).cpu() for rows in test[0].split(1000)])
        error = float((scores - one_hot(test[1], NUM_CLASSES)).square().sum(dim=1).mean())
        print(f"| {name} | {error:.4f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
