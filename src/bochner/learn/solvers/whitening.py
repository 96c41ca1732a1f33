"""The kernel's space seen from landmarks: K_mm = L L^T, f = k_x L^{-T} gamma with ||f|| = ||gamma||."""

from __future__ import annotations

import torch
from torch import Tensor

from bochner import checks
from bochner.kernels import Kernel
from bochner.ops import row_tiles

# Columns of L^T W L made at once.
PRODUCT_COLUMNS = 512
JITTER_ATTEMPTS = 8


class Whitening:
    """L [m, m], lower, with L L^T = K_mm + jitter I, in float64.

    f on landmarks has coefficients alpha and norm alpha^T K_mm alpha; gamma = L^T alpha has that norm as its own, which
    makes the penalty a multiple of the identity. The jitter starts at the rounding of float64 and grows tenfold until
    the factorisation goes through: duplicated landmarks do no harm. O(m^3 / 3).
    """

    def __init__(self, kernel: Kernel, landmarks: Tensor) -> None:
        checks.finite("landmarks", checks.inputs("landmarks", landmarks))
        K = checks.finite("k(landmarks, landmarks)", kernel(landmarks.double()))
        self.amplitude = float(K.diagonal().mean())
        jitter = self.amplitude * torch.finfo(K.dtype).eps * len(K) ** 0.5
        for _ in range(JITTER_ATTEMPTS):
            K.diagonal().add_(jitter)
            self.root, failed = torch.linalg.cholesky_ex(K)
            if not int(failed):
                return
            jitter *= 10
        raise ValueError(f"kernel must be positive semi-definite, but {kernel!r} is not on the landmarks.")

    @property
    def smallest(self) -> float:
        """About the smallest eigenvalue of K_mm: the smallest pivot of its factorisation, never less than it."""
        return float(self.root.diagonal().min()) ** 2

    def coefficients(self, gamma: Tensor) -> Tensor:
        """alpha = L^{-T} gamma."""
        return torch.linalg.solve_triangular(self.root.T, gamma, upper=True)

    def pull(self, gradient: Tensor) -> Tensor:
        """L^{-1} g: a gradient by alpha becomes one by gamma."""
        return torch.linalg.solve_triangular(self.root, gradient, upper=False)

    def factor_hessian(self, curvature: Tensor | None, ridge: float) -> Tensor:
        """The lower Cholesky factor of L^T W L / m + ridge I, W = diag(curvature [m]): the Hessian, were the rows of
        the data the landmarks. O(2 m^3 / 3): only the lower half, and without the zeros of L."""
        root, m = self.root, len(self.root)
        H = torch.zeros_like(root)
        for part in row_tiles(m, row_elements=1, tile_elements=PRODUCT_COLUMNS):
            below = root[part.start :]
            left = below[:, part] if curvature is None else below[:, part] * curvature[part.start :, None]
            H[part, : part.stop] = left.T @ below[:, : part.stop]
        H.div_(m).diagonal().add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(H)
        if int(failed):
            raise ValueError(f"ridge must be larger, got {ridge:g}: the preconditioner is singular to rounding.")
        return factor


def solve_factored(factor: Tensor, rhs: Tensor) -> Tensor:
    """(M M^T)^{-1} rhs for a lower M; three times as fast as torch.cholesky_solve for few right-hand sides."""
    half = torch.linalg.solve_triangular(factor, rhs, upper=False)
    return torch.linalg.solve_triangular(factor.T, half, upper=True)
