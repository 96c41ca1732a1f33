"""New points for a factor that has no landmarks."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from bochner.features import NystromMap
from bochner.features.landmarks import pivoted_cholesky, uniform_sample
from bochner.kernels import Kernel, Polynomial

# Points per column of U that a new point is compared with: the least squares are well determined.
ANCHORS_PER_COLUMN = 10
LINEAR = Polynomial(degree=1, offset=0.0)


def extend(
    kernel: Kernel, X: Tensor, root: Tensor, *, generator: Generator, num_anchors: int | None = None
) -> NystromMap:
    """The map whose z(x) explains the kernel values of x at some of the points best:

        z(x) = argmin_z ||U_S z - k(S, x)||^2 = k(x, S) (U_S^+)^T,

    S = `num_anchors` points of X [n, d] (10 r, at most n), U_S [s, r] their rows of `root` [n, r]: r of them such that
    no direction of U is missed, be it carried by a single lonely point, and uniform ones. With all points and
    U = Q L^{1/2} from eigenpairs of K it is the Nystrom extension L^{-1/2} Q^T k(X, x), exact at X. Directions lost in
    the rounding of X's dtype are dropped. O(n r^2 + s r^2) to fit, O(s (d + r)) a new point.

    >>> from bochner.kernels import Gaussian
    >>> X = torch.linspace(0, 1, 20, dtype=torch.float64)[:, None]
    >>> root = torch.linalg.cholesky(Gaussian(bandwidth=0.1)(X))
    >>> z = extend(Gaussian(bandwidth=0.1), X, root, generator=Generator().manual_seed(0))
    >>> torch.allclose(z(X) @ root.T, Gaussian(bandwidth=0.1)(X))
    True
    """
    count = min(len(X), ANCHORS_PER_COLUMN * root.shape[1] if num_anchors is None else num_anchors)
    chosen = _anchors(root, count, generator)
    rounding = torch.finfo(root.dtype).eps * count
    normalization = torch.linalg.pinv(root[chosen].double(), rtol=rounding).T
    return NystromMap(kernel, X[chosen], normalization.to(X.dtype).contiguous())


def _anchors(root: Tensor, count: int, generator: Generator) -> Tensor:
    """`count` rows of U: random pivots of the projection on its columns, by their leverage, and uniform others."""
    Q = torch.linalg.qr(root.double()).Q
    pivots = pivoted_cholesky(LINEAR, Q, min(count, root.shape[1]), generator=generator).pivots
    is_free = torch.ones(len(root), dtype=torch.bool, device=root.device)
    is_free[pivots] = False
    others = is_free.nonzero().squeeze(1)
    drawn = uniform_sample(len(others), count - len(pivots), generator=generator).to(root.device)
    return torch.cat([pivots, others[drawn]])
