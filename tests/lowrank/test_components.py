"""Principal components and spectral embeddings of factors, against dense eigenproblems."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bochner.kernels import Gaussian
from bochner.lowrank import Factor, fit_nystrom, principal_components, spectral_embedding, truncate
from tests.lowrank.cases import CASES, generator, points


@pytest.mark.parametrize("case", CASES, ids=str)
def test_components_are_eigenpairs_of_the_centred_matrix(case) -> None:
    U = case.make(points()).root
    found = principal_components(U, n_components=5)
    centring = torch.eye(60, dtype=U.dtype) - 1 / 60
    centred = centring @ U @ U.T @ centring
    scores = (U - found.mean) @ found.directions
    torch.testing.assert_close(found.values, torch.linalg.eigvalsh(centred).flip(0)[:5])
    torch.testing.assert_close(centred @ scores, scores * found.values)
    torch.testing.assert_close(found.directions.T @ found.directions, torch.eye(5, dtype=U.dtype))


def test_signs_do_not_depend_on_the_basis() -> None:
    U = CASES[0].make(points()).root
    turned = U @ torch.linalg.qr(torch.randn(12, 12, generator=generator(), dtype=U.dtype)).Q
    scores = []
    for root in (U, turned, -U):
        found = principal_components(root, n_components=3)
        scores.append((root - found.mean) @ found.directions)
    torch.testing.assert_close(scores[1], scores[0])
    torch.testing.assert_close(scores[2], scores[0])
    assert (scores[0].amax(dim=0) >= -scores[0].amin(dim=0)).all()


def dense_embedding(K: Tensor, count: int) -> Tensor:
    scale = K.sum(dim=1).rsqrt()
    return scale[:, None] * torch.linalg.eigh(scale[:, None] * K * scale).eigenvectors.flip(1)[:, :count]


@pytest.mark.parametrize("case", [case for case in CASES if case.below], ids=str)
def test_embedding_is_that_of_the_dense_graph(case) -> None:
    factor = case.make(points(), rank=30)
    embedding = spectral_embedding(factor, n_components=4)
    expected = dense_embedding(factor.root @ factor.root.T, 4)
    torch.testing.assert_close(embedding.abs(), expected.abs(), rtol=1e-6, atol=1e-9)


def test_the_first_vector_is_constant() -> None:
    X = points()
    first = spectral_embedding(fit_nystrom(Gaussian(), X, rank=40, generator=generator()), n_components=1)[:, 0]
    torch.testing.assert_close(first, first[:1].expand(60))


def far_point() -> Factor:
    """Landmarks of which none is near the last point."""
    X = torch.cat([points(), torch.full((1, 3), 50.0, dtype=torch.float64)])
    k = Gaussian(bandwidth=3.0)
    return fit_nystrom(k, X, rank=8, num_landmarks=8, landmarks="uniform", generator=generator())


def test_a_point_that_the_factor_misses_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"factor misses 1 of 61 points.*raise the rank or the bandwidth"):
        spectral_embedding(far_point(), n_components=2)


def test_more_than_the_rank_is_refused() -> None:
    factor = truncate(Gaussian(), points(), rank=3, generator=generator())
    with pytest.raises(ValueError, match="n_components must be at most the rank, 3, got 4"):
        spectral_embedding(factor, n_components=4)
    with pytest.raises(ValueError, match="n_components must be at most the rank, 3, got 4"):
        principal_components(factor.root, n_components=4)
