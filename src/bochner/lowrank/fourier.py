"""Random Fourier factors."""

from __future__ import annotations

from torch import Generator, Tensor

from bochner.features import FourierMap
from bochner.kernels import Kernel
from bochner.lowrank.factor import DenseFactor
from bochner.lowrank.inputs import check_problem


def fit_fourier(
    kernel: Kernel, X: Tensor, *, rank: int, projection: str = "auto", form: str = "auto", generator: Generator
) -> DenseFactor:
    """U = z(X) [n, r] with r random Fourier features of a spectral kernel: unbiased, E U U^T = K, and blind to the
    data.

    `projection` and `form` as in `FourierMap.draw`; form "auto" is "paired" for an even rank, else "cosine". The
    spectral error falls as n / sqrt(r): at equal rank the worst of the methods, and the cheapest, O(n r d) or less.
    Source: Rahimi & Recht 2007; Bhardwaj 2015, 2.3.

    >>> import torch; from bochner.kernels import Gaussian
    >>> X = torch.randn(100, 2, generator=Generator().manual_seed(0))
    >>> fit_fourier(Gaussian(), X, rank=10, generator=Generator().manual_seed(0)).diag().round(decimals=4).unique()
    tensor([1.])
    """
    check_problem(kernel, X, rank)
    if form == "auto":
        form = "cosine" if rank % 2 else "paired"
    features = FourierMap.draw(
        kernel,
        num_inputs=X.shape[1],
        num_features=rank,
        projection=projection,
        form=form,
        generator=generator,
        dtype=X.dtype,
    ).to(X.device)
    return DenseFactor(features(X), features)
