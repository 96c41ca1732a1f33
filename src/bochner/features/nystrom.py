"""Nystrom maps, from the kernel values between points and a few landmarks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from scipy.optimize import nnls
from torch import Generator, Tensor, nn

from bochner import checks
from bochner.features.landmarks import choose_landmarks, uniform_sample
from bochner.features.map import FeatureMap
from bochner.features.projections import frozen
from bochner.kernels import Kernel
from bochner.ops.linalg import top_eigenpairs


class NystromMap(FeatureMap):
    """z(x) = Lambda_D^{-1/2} U_D^T k_x, with k_x = (k(x, l_1) .. k(x, l_m)) and K = U Lambda U^T on the landmarks.

    z(x) . z(y) is the inner product of the projections of x and y on the span of the landmarks in the RKHS (for
    D = m): ||z(x)||^2 <= k(x, x), exact at the landmarks, and the error is the inner product of the parts orthogonal to
    that span. landmarks [m, d]; normalization [m, D] = U_D Lambda_D^{-1/2}.
    O(m^2 D) to fit, O(N m (d + D)) to apply, O(m (d + D)) memory. Source: Williams & Seeger 2001; May 2018, 2.3, 6.1.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 3, generator=Generator().manual_seed(0))
    >>> z = NystromMap.fit(Gaussian(), X, num_landmarks=20, generator=Generator().manual_seed(0))
    >>> bool((z(X).square().sum(dim=1) <= 1 + 1e-5).all())
    True
    """

    def __init__(self, kernel: Kernel, landmarks: Tensor, normalization: Tensor) -> None:
        super().__init__()
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel, got {kernel!r}.")
        if landmarks.ndim != 2 or normalization.ndim != 2 or len(landmarks) != len(normalization):
            raise ValueError(
                f"landmarks must be [m, d] and normalization [m, D], "
                f"got {tuple(landmarks.shape)} and {tuple(normalization.shape)}."
            )
        self.kernel = kernel
        self.landmarks, self.normalization = frozen(landmarks), frozen(normalization)
        self.num_inputs, self.num_features = landmarks.shape[1], normalization.shape[1]

    @classmethod
    def fit(
        cls,
        kernel: Kernel,
        X: Tensor,
        *,
        num_landmarks: int,
        num_features: int | None = None,
        landmarks: str = "uniform",
        generator: Generator,
    ) -> NystromMap:
        """Choose landmarks in X [n, d] and normalise by their kernel matrix; D = `num_features` <= m, all m if None.

        The small eigenproblem is solved in float64; eigenvectors whose eigenvalue is lost in the rounding of X's dtype
        are set to zero, so duplicated landmarks do no harm.
        """
        chosen = choose_landmarks(landmarks, kernel, X, num_landmarks, generator=generator)
        D = num_landmarks if num_features is None else checks.positive_int("num_features", num_features)
        if num_landmarks < D:
            raise ValueError(f"num_features must be at most num_landmarks, {num_landmarks}, got {D}.")
        values, vectors = top_eigenpairs(kernel(chosen.double()), D, generator=generator)
        rounding = max(torch.finfo(X.dtype).eps, num_landmarks * torch.finfo(values.dtype).eps)
        floor = values.max() * rounding
        roots = torch.where(values > floor, values, torch.inf).rsqrt()
        return cls(kernel, chosen, (vectors * roots).to(X.dtype).contiguous())

    def _features(self, X: Tensor) -> Tensor:
        return self.kernel(X, self.landmarks) @ self.normalization

    def _write_tile(self, X: Tensor, out: Tensor) -> None:
        torch.mm(self.kernel(X, self.landmarks), self.normalization, out=out)


class EnsembleNystromMap(FeatureMap):
    """K ~ sum_e mu_e K_e with Nystrom approximations K_e from separate landmarks: z(x) = [sqrt(mu_e) z_e(x)]_e.

    Weights mu [experts] are non-negative. Source: Kumar, Mohri & Talwalkar 2009.
    """

    def __init__(self, experts: Sequence[NystromMap], weights: Tensor) -> None:
        super().__init__()
        if len(experts) == 0 or weights.shape != (len(experts),) or bool((weights < 0).any()):
            raise ValueError(f"weights must be one non-negative number per expert, {len(experts)}, got {weights}.")
        if len({expert.num_inputs for expert in experts}) != 1:
            raise ValueError("experts must all take the same number of inputs.")
        self.experts = nn.ModuleList(experts)
        self.weights = frozen(weights)
        self.kernel = experts[0].kernel
        self.num_inputs = experts[0].num_inputs
        self.num_features = sum(expert.num_features for expert in experts)

    @classmethod
    def fit(
        cls,
        kernel: Kernel,
        X: Tensor,
        *,
        num_landmarks: int,
        num_features: int | None = None,
        num_experts: int = 4,
        weighting: str = "uniform",
        landmarks: str = "uniform",
        generator: Generator,
    ) -> EnsembleNystromMap:
        """Split `num_landmarks` and `num_features` evenly over the experts and fit each.

        weighting "uniform" gives each expert 1 / experts; "fitted" solves non-negative least squares on the kernel
        values of up to 500 points of X.
        """
        checks.positive_int("num_experts", num_experts)
        checks.one_of("weighting", weighting, ["uniform", "fitted"])
        for name, total in (("num_landmarks", num_landmarks), ("num_features", num_features)):
            if total is not None and total % num_experts:
                raise ValueError(f"{name} must be a multiple of num_experts, {num_experts}, got {total}.")
        if num_landmarks > len(X):
            raise ValueError(f"num_landmarks must be at most the number of points, {len(X)}, got {num_landmarks}.")
        parts = uniform_sample(len(X), len(X), generator=generator).to(X.device).tensor_split(num_experts)
        experts = [
            NystromMap.fit(
                kernel,
                X[part],
                num_landmarks=num_landmarks // num_experts,
                num_features=None if num_features is None else num_features // num_experts,
                landmarks=landmarks,
                generator=generator,
            )
            for part in parts
        ]
        weights = X.new_full((num_experts,), 1 / num_experts)
        if weighting == "fitted":
            sample = X[uniform_sample(len(X), min(len(X), 500), generator=generator).to(X.device)]
            weights = _fitted_weights(kernel, experts, sample)
        return cls(experts, weights)

    def _features(self, X: Tensor) -> Tensor:
        parts = zip(self.weights.sqrt(), self.experts, strict=True)
        return torch.cat([root * expert(X) for root, expert in parts], dim=1)


def _fitted_weights(kernel: Kernel, experts: Sequence[NystromMap], sample: Tensor) -> Tensor:
    columns = torch.stack([expert.approximate(sample, sample).flatten() for expert in experts], dim=1)
    values = checks.finite("k(X, X)", kernel(sample)).flatten()
    solution, _ = nnls(columns.double().cpu().numpy(), values.double().cpu().numpy())
    return torch.as_tensor(solution).to(sample)
