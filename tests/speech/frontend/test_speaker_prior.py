"""Moments of a speaker from short recordings: the maximum of their objective, and the offset of a microphone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

pytest.importorskip("kaldi_hmm_gmm")

from bochner.speech.frontend.postprocess import Moments, average_moments, group_moments, smoothed
from bochner.speech.frontend.speaker_prior import SpeakerPrior
from bochner.speech.hmm.mixtures import Mixtures

PHONES = np.array([[3.0, 0.0, -1.0], [-2.0, 2.0, 0.0], [0.0, -3.0, 2.0], [1.0, 1.0, -2.0]])


def recording(phones: list[int], generator: np.random.Generator, *, length: int = 12) -> np.ndarray:
    means = np.repeat(PHONES[phones], length, axis=0)
    return means + 0.4 * generator.standard_normal(means.shape)


def corpus() -> SpeakerPrior:
    """Eight speakers, each with an offset and a gain, and the prior of their normalised frames."""
    generator = np.random.default_rng(0)
    frames = {
        str(k): (1 + 0.1 * generator.standard_normal(3)) * recording([0, 1, 2, 3] * 20, generator)
        + generator.standard_normal(3)
        for k in range(8)
    }
    moments = group_moments(frames.items())
    normal = [(frames[name] - own.mean) / own.std for name, own in moments.items()]
    return SpeakerPrior.fit(average_moments(moments.values()), normal)


def test_the_mean_of_a_word_is_not_that_of_its_speaker() -> None:
    """Half a second of two of the four phones: plain moments, also smoothed, mistake the phones for the speaker."""
    prior = corpus()
    generator = np.random.default_rng(1)
    errors = {"smoothed": [], "prior": []}
    for _ in range(20):
        offset, words = generator.standard_normal(3), generator.permutation(4)[:2].tolist()
        frames = recording(words, generator, length=25) + offset
        true = PHONES.mean(axis=0) + offset
        plain = smoothed(group_moments([("", frames)])[""], prior.average)
        errors["smoothed"].append(np.abs(plain.mean - true).mean())
        errors["prior"].append(np.abs(prior.moments([frames]).mean - true).mean())
    assert np.mean(errors["prior"]) < 0.7 * np.mean(errors["smoothed"])


def test_moments_are_the_maximum_of_the_objective() -> None:
    """The fixed point of EM is a maximum of the log likelihood: Jensen's bound touches it there."""
    prior = corpus()
    frames = recording([0, 3], np.random.default_rng(2)) + 0.3
    z = (frames - prior.average.mean) / prior.average.std
    own = prior.fitted([frames], prior_frames=1e-9)
    a = prior.average.std / own.std
    c = (prior.average.mean - own.mean) / own.std

    def loss(parameters: np.ndarray) -> float:
        a, c = np.split(parameters, 2)
        return -float(naive_log_likelihood(prior.mixtures, a * z + c) + len(z) * np.log(a).sum())

    start = np.concatenate([a, c])
    best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-6, "fatol": 1e-9})
    assert loss(start) == pytest.approx(best.fun, abs=0.05)
    assert loss(np.concatenate([np.ones(3), np.zeros(3)])) > best.fun + 1.0


def naive_log_likelihood(mixtures: Mixtures, y: np.ndarray) -> float:
    total = 0.0
    for row in y:
        squares = (row - mixtures.means) ** 2 / mixtures.variances
        squares = (squares + np.log(2 * np.pi * mixtures.variances)).sum(axis=1)
        total += np.log(np.sum(mixtures.weights * np.exp(-0.5 * squares)))
    return total


def test_few_frames_give_the_average_and_many_the_speaker() -> None:
    prior = corpus()
    generator = np.random.default_rng(3)
    frames = recording([0, 1, 2, 3] * 40, generator) + 1.0
    nothing = prior.fitted([frames], prior_frames=1e9)
    np.testing.assert_allclose(nothing.mean, prior.average.mean, atol=0.05)
    np.testing.assert_allclose(nothing.std, prior.average.std, rtol=0.02)
    own, plain = prior.moments([frames]), group_moments([("", frames)])[""]
    np.testing.assert_allclose(prior.fitted([frames]).mean, plain.mean, atol=0.1)
    assert own.num_frames == len(frames)
    np.testing.assert_allclose(own.mean, plain.mean, atol=0.1)
    np.testing.assert_allclose(own.std, plain.std, rtol=0.1)


def test_constant_dimensions_keep_their_scale() -> None:
    frames = np.column_stack([np.random.default_rng(0).standard_normal(200), np.zeros(200)])
    prior = SpeakerPrior.fit(Moments(200, np.array([0.0, 5.0]), np.array([1.0, 0.0])), [frames])
    own = prior.moments([frames + 5.0])
    assert np.isfinite(own.mean).all()
    assert own.std[1] > 0


def test_a_stored_prior_is_the_same(tmp_path: Path) -> None:
    prior = corpus()
    prior.save(tmp_path / "prior.safetensors")
    again = SpeakerPrior.load(tmp_path / "prior.safetensors")
    frames = recording([1, 2], np.random.default_rng(4))
    for a, b in zip(prior.moments([frames]), again.moments([frames]), strict=True):
        np.testing.assert_array_equal(a, b)
    (tmp_path / "prior.safetensors").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"prior\.safetensors"):
        SpeakerPrior.load(tmp_path / "prior.safetensors")
