"""Densities in streams against a direct evaluation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from bochner.speech.hmm import streams
from bochner.speech.hmm.streams import StreamMixtures, stream_frames


def mixtures(pdfs: int = 4, codebooks: int = 2, num_streams: int = 3, size: int = 5, dim: int = 2) -> StreamMixtures:
    generator = np.random.default_rng(0)
    weights = generator.random((pdfs, num_streams, size))
    shape = (codebooks, num_streams, size, dim)
    return StreamMixtures(
        np.arange(pdfs) % codebooks, weights / weights.sum(-1, keepdims=True), generator.standard_normal(shape),
        0.5 + generator.random(shape),
    )  # fmt: skip


def test_log_likelihoods_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 3)  # several blocks
    model, frames = mixtures(), np.random.default_rng(1).standard_normal((7, 3, 2))
    expected = np.zeros((7, 4))
    for t, pdf in np.ndindex(7, 4):
        c = model.codebooks[pdf]
        for s in range(3):
            densities = norm.pdf(frames[t, s], model.means[c, s], np.sqrt(model.variances[c, s])).prod(axis=1)
            expected[t, pdf] += np.log(model.weights[pdf, s] @ densities)
    np.testing.assert_allclose(model.log_likelihoods(frames), expected, rtol=1e-4, atol=1e-4)


def test_streams_are_cepstra_and_their_differences() -> None:
    cepstra = np.random.default_rng(0).standard_normal((9, 2))
    _, first, second = stream_frames(cepstra)[4]
    np.testing.assert_allclose(first, cepstra[6] - cepstra[2])
    np.testing.assert_allclose(second, (cepstra[7] - cepstra[3]) - (cepstra[5] - cepstra[1]))


def test_shapes_that_do_not_fit_are_refused() -> None:
    model = mixtures()
    with pytest.raises(ValueError, match="variances"):
        StreamMixtures(model.codebooks, model.weights, model.means, model.variances[:1])
    with pytest.raises(ValueError, match="codebooks"):
        StreamMixtures(model.codebooks + 1, model.weights, model.means, model.variances)
    with pytest.raises(ValueError, match="positive"):
        StreamMixtures(model.codebooks, model.weights, model.means, 0 * model.variances)


def test_shapes_that_do_not_fit() -> None:
    """As a damaged file may bring them."""
    good = mixtures()
    for changes, message in [
        ({"variances": good.variances[:1]}, "variances and weights must fit means"),
        ({"weights": good.weights[:, :1]}, "variances and weights must fit means"),
        ({"codebooks": good.codebooks[1:]}, "codebooks must name one of 2 for each of 4 pdfs"),
        ({"codebooks": good.codebooks + 2}, "codebooks must name one of 2 for each of 4 pdfs"),
        ({"variances": 0 * good.variances}, "must be positive and means finite"),
        ({"weights": 0 * good.weights}, "must be positive and means finite"),
        ({"means": np.nan * good.means}, "must be positive and means finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            dataclasses.replace(good, **changes)
