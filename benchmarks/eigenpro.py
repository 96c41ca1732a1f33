"""`fit_eigenpro` compared with the EigenPro repository: `python -m benchmarks.eigenpro --repository PATH`.

PATH is a checkout of github.com/EigenPro/EigenPro (with its own requirements installed); without it only the solvers of
bochner are measured. The data are synthetic: 40 clusters of 10 classes in 20 dimensions. Prints the squared error on
4,000 test rows and CPU seconds; use one thread.
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

KERNEL = Matern(smoothness=0.5, bandwidth=10.0)  # exp(-||x - y|| / 10), which EigenPro calls "laplacian"
NUM_INPUTS, NUM_CLASSES, NUM_CLUSTERS, TEST_ROWS = 20, 10, 40, 4000


def made_rows(count: int, generator: Generator, centers: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    cluster = torch.randint(NUM_CLUSTERS, (count,), generator=generator)
    return centers[cluster] + 0.9 * torch.randn(count, NUM_INPUTS, generator=generator), labels[cluster]


def peer(landmarks: Tensor, X: Tensor, y: Tensor, test: tuple[Tensor, Tensor], epochs: int) -> Callable[..., Tensor]:
    """EigenPro's own code with the settings of its example."""
    from eigenpro.models import sharded_kernel_machine
    from eigenpro.utils import device as devices

    from eigenpro import kernels, solver

    def kernel(x: Tensor, z: Tensor) -> Tensor:
        return kernels.laplacian(x, z, bandwidth=KERNEL.bandwidth)

    device = devices.Device.create(use_gpu_if_available=False)
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
    arguments = parser.parse_args()
    generator = Generator().manual_seed(0)
    centers = torch.randn(NUM_CLUSTERS, NUM_INPUTS, generator=generator)
    labels = torch.randint(NUM_CLASSES, (NUM_CLUSTERS,), generator=generator)
    X, y = made_rows(arguments.rows, generator, centers, labels)
    test = made_rows(TEST_ROWS, generator, centers, labels)
    landmarks = X[torch.randperm(arguments.rows, generator=generator)[: arguments.landmarks]]
    source = ArraySource(X, y)
    fits: dict[str, Callable[[], Callable[..., Tensor]]] = {
        "fit_landmark_ridge": lambda: fit_landmark_ridge(KERNEL, landmarks, source, num_classes=NUM_CLASSES).decision
    }
    for epochs in arguments.epochs:
        fits[f"fit_eigenpro, {epochs} epochs"] = lambda epochs=epochs: (  # type: ignore[misc]
            fit_eigenpro(KERNEL, landmarks, source, num_classes=NUM_CLASSES, max_epochs=epochs).decision
        )
        if arguments.repository:
            sys.path.insert(0, arguments.repository)
            fits[f"EigenPro, {epochs} epochs"] = lambda epochs=epochs: (  # type: ignore[misc]
                peer(landmarks, X, y, test, epochs)
            )
    for name, fit in fits.items():
        start = time.process_time()
        predict = fit()
        seconds = time.process_time() - start
        error = float((predict(test[0]) - one_hot(test[1], NUM_CLASSES)).square().sum(dim=1).mean())
        print(f"| {name} | {error:.4f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
