"""Small test problems for solvers, and their dense float64 solutions."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Generator, Tensor

from bochner.features import FourierMap
from bochner.kernels import Gaussian, Kernel
from bochner.models.heads import LinearHead


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def points(n: int = 120, d: int = 3, *, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, d, generator=generator(seed), dtype=torch.float64).to(dtype)


def classes(X: Tensor, num_classes: int, *, seed: int = 1) -> Tensor:
    """Noisy labels that no line separates."""
    noise = 0.3 * torch.randn(len(X), generator=generator(seed), dtype=torch.float64)
    place = (X[:, 0].double() * X[:, 1].double() + noise).argsort().argsort()
    return place * num_classes // len(X)


def numbers(X: Tensor, outputs: int = 2) -> Tensor:
    noise = 0.1 * torch.randn(len(X), outputs, generator=generator(2), dtype=torch.float64)
    waves = torch.stack([(X[:, 0].double() * (j + 1)).sin() + 3 for j in range(outputs)], dim=1)
    return (waves + noise).to(X.dtype)


def weights(n: int) -> Tensor:
    """Whole numbers from 0 to 3."""
    return torch.randint(0, 4, (n,), generator=generator(3))


def fourier_map(num_features: int = 20, *, num_inputs: int = 3, dtype: torch.dtype = torch.float64) -> FourierMap:
    return FourierMap.draw(
        Gaussian(bandwidth=1.5), num_inputs=num_inputs, num_features=num_features, generator=generator(4), dtype=dtype
    )


def assert_heads_close(found: LinearHead, right: LinearHead, *, atol: float) -> None:
    torch.testing.assert_close(found.weights, right.weights, rtol=0, atol=atol)
    torch.testing.assert_close(found.bias, right.bias, rtol=0, atol=atol)


def dense_landmark_ridge(
    kernel: Kernel, landmarks: Tensor, X: Tensor, Y: Tensor, weight: Tensor, ridge: float
) -> Tensor:
    """Scores of the landmarks' solution at X: least squares of [W^1/2 K_nm; ridge^1/2 K_mm^1/2] a on [W^1/2 Y; 0]."""
    w = (weight / weight.sum()).double()[:, None]
    K, Y = kernel(X.double(), landmarks.double()), Y.double()
    values, vectors = torch.linalg.eigh(kernel(landmarks.double()))
    root = (ridge * values.clamp_min(0)).sqrt()[:, None] * vectors.T
    mean = (w * Y).sum(dim=0)
    rows = torch.cat([w.sqrt() * K, root])
    targets = torch.cat([w.sqrt() * (Y - mean), Y.new_zeros(len(root), Y.shape[1])])
    return K @ torch.linalg.lstsq(rows, targets, driver="gelsd").solution + mean


def dense_logistic(
    Z: Tensor, y: Tensor, num_classes: int, offset: Tensor, ridge: float, *, bias: bool = False
) -> Tensor:
    """Scores at Z of the minimum of mean loss + ridge / 2 ||W||^2 over f = Z W + offset (+ free bias), by L-BFGS."""
    t, D = (1 if num_classes == 2 else num_classes), Z.shape[1]
    target = torch.nn.functional.one_hot(y, num_classes)

    def scores(parameters: Tensor) -> Tensor:
        W = parameters.view(D + 1, t)
        return Z @ W[:D] + offset + (W[D] if bias else 0)

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parameters = torch.tensor(flat, requires_grad=True)
        f = scores(parameters)
        logits = torch.cat([torch.zeros_like(f), f], dim=1) if t == 1 else f
        loss = -(target * logits.log_softmax(dim=1)).sum(dim=1).mean()
        (loss + ridge / 2 * parameters.view(D + 1, t)[:D].square().sum()).backward()
        value = loss + ridge / 2 * parameters.view(D + 1, t)[:D].square().sum()
        return float(value.detach()), parameters.grad.numpy()

    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    found = minimize(objective, np.zeros((D + 1) * t), jac=True, method="L-BFGS-B", options=options)
    return scores(torch.as_tensor(found.x))
