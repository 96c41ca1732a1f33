"""Nystrom features: choice of landmarks, normalisation, and features of all points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from sklearn.kernel_approximation import Nystroem
from torch import Tensor

from benchmarks.data import gamma, median_bandwidth, points
from benchmarks.measure import Run
from benchmarks.report import Row
from benchmarks.suite import peers
from benchmarks.suite.race import PLAIN, race
from benchmarks.suite.sizes import Sizes
from bochner.features import NystromMap
from bochner.kernels import Gaussian


def rows(sizes: Sizes) -> Iterator[Row]:
    inputs = points(sizes.points, sizes.inputs)
    X, bandwidth = torch.from_numpy(inputs).to(sizes.device), median_bandwidth(inputs)
    table = f"Nystrom, {sizes.points:,} x {sizes.inputs} by {sizes.landmarks:,} landmarks: fit and features"
    theirs: dict[str, Run] = {
        PLAIN: lambda: plain_features(X, bandwidth, sizes.landmarks),
        "scikit-learn": lambda: Nystroem(
            gamma=gamma(bandwidth), n_components=sizes.landmarks, random_state=0
        ).fit_transform(inputs),
    }
    if peers.has("GPyTorch"):
        theirs["GPyTorch"] = lambda: gpytorch_features(X, bandwidth, sizes.landmarks)
    ours = {"NystromMap, uniform": lambda: our_features(X, bandwidth, sizes.landmarks)}
    yield from race(table, ours, theirs, sizes, note="The same kernel, uniform landmarks.")


def our_features(X: Tensor, bandwidth: float, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return NystromMap.fit(Gaussian(bandwidth=bandwidth), X, num_landmarks=count, generator=generator)(X)


def plain_features(X: Tensor, bandwidth: float, count: int) -> Tensor:
    landmarks = _sample(X, count)
    values, U = torch.linalg.eigh(_gaussian(landmarks, landmarks, bandwidth))
    return _gaussian(X, landmarks, bandwidth) @ (U / values.clamp_min(1e-6).sqrt())


def gpytorch_features(X: Tensor, bandwidth: float, count: int) -> Any:
    """The root of its low-rank kernel, by a Cholesky factor."""
    from gpytorch.kernels import InducingPointKernel, RBFKernel
    from gpytorch.likelihoods import GaussianLikelihood

    base = RBFKernel().to(X)
    base.lengthscale = bandwidth
    kernel = InducingPointKernel(base, _sample(X, count), GaussianLikelihood().to(X)).to(X)
    with torch.no_grad():
        return kernel(X).evaluate_kernel().root.to_dense()


def _gaussian(X: Tensor, Y: Tensor, bandwidth: float) -> Tensor:
    return torch.exp(torch.cdist(X, Y).square() / (-2 * bandwidth**2))


def _sample(X: Tensor, count: int) -> Tensor:
    return X[torch.randperm(len(X), generator=torch.Generator().manual_seed(0))[:count].to(X.device)]
