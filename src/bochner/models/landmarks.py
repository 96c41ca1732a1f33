"""Kernel models that are sums over landmarks."""

from __future__ import annotations

from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.storage import Storable


class LandmarkModel(Storable):
    """f(x) = sum_j k(x, l_j) a_j + b: landmarks [m, d], coefficients [m, t], bias [t]; can be saved and loaded.

    >>> import torch
    >>> from bochner.kernels import Gaussian
    >>> model = LandmarkModel(Gaussian(), torch.zeros(1, 2), torch.ones(1, 3), torch.zeros(3))
    >>> model.decision(torch.zeros(4, 2)).shape
    torch.Size([4, 3])
    """

    landmarks: Tensor
    coefficients: Tensor
    bias: Tensor

    def __init__(self, kernel: Kernel, landmarks: Tensor, coefficients: Tensor, bias: Tensor) -> None:
        super().__init__()
        if coefficients.shape != (len(landmarks), len(bias)):
            expected, given = (len(landmarks), len(bias)), tuple(coefficients.shape)
            raise ValueError(f"coefficients must have shape {expected}, one row per landmark, got {given}.")
        self.kernel = kernel
        self.register_buffer("landmarks", landmarks)
        self.register_buffer("coefficients", coefficients)
        self.register_buffer("bias", bias)

    def decision(self, X: Tensor, *, tile_rows: int | None = None) -> Tensor:
        """f(X) [n, t] for X [n, d], without storing k(X, landmarks); computed in the landmarks' dtype, returned in
        X's. `tile_rows` as in `Kernel.matmul`."""
        checks.inputs("X", X, width=self.landmarks.shape[1])
        points = X.to(self.landmarks)
        scores = self.kernel.matmul(points, self.landmarks, self.coefficients, tile_rows=tile_rows)
        return (scores + self.bias).to(X.dtype)

    def forward(self, X: Tensor) -> Tensor:
        return self.decision(X)
