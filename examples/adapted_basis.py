"""Compare random features with features adapted to the data, at the same number of features.

Run `python examples/adapted_basis.py --n_components 32`.
"""

import torch
from jsonargparse import auto_cli
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from torch import Generator

from bochner.adaptation import BasisSettings, adapt
from bochner.data import ArraySource
from bochner.features import FeatureMap, FourierMap
from bochner.kernels import Gaussian


def main(*, n_components: int = 32, seed: int = 0) -> None:
    """Args:
    n_components: Number of features of each basis.
    seed: Seed of the frequencies and of the batches.
    """
    digits = load_digits()
    X, y = torch.tensor(digits.data, dtype=torch.float32), torch.tensor(digits.target)
    rows = ArraySource(X[:1297], y[:1297])
    kernel = Gaussian().with_bandwidth("median", X[:1297])
    generator = Generator().manual_seed(seed)
    random = FourierMap.draw(kernel, num_inputs=64, num_features=n_components, form="cosine", generator=generator)
    settings = BasisSettings(batches=100, validation_batches=10, max_epochs=2, learning_rate=0.02, seed=seed)
    bases = {"random": random}
    for objective in ("kernel", "alignment", "loss"):
        bases[objective] = adapt(random, rows, objective=objective, settings=settings, verbose=False)
    for name, basis in bases.items():
        print(f"{name:10} test accuracy {accuracy(basis, X, y):.3f}   kernel error {kernel_error(basis, X[1297:]):.4f}")


def accuracy(basis: FeatureMap, X: torch.Tensor, y: torch.Tensor) -> float:
    """Accuracy of ridge regression on the features: trained on the first 1,297 rows, tested on the others."""
    Z = basis(X)
    return float(RidgeClassifier(alpha=0.01).fit(Z[:1297], y[:1297]).score(Z[1297:], y[1297:]))


def kernel_error(basis: FeatureMap, X: torch.Tensor) -> float:
    """Root mean square of z(x) . z(y) - k(x, y) over pairs of rows."""
    return float((basis.approximate(X, X) - basis.kernel(X)).square().mean().sqrt())


if __name__ == "__main__":
    auto_cli(main)
