import numpy as np
import pytest

from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.kaldi import kaldi_hmm_gmm


def random_mixtures(seed=0, sizes=(1, 3, 2), dim=4):
    generator = np.random.default_rng(seed)
    sizes = np.array(sizes)
    weights = np.concatenate([generator.dirichlet(np.ones(size)) for size in sizes])
    shape = (sizes.sum(), dim)
    return Mixtures(sizes, weights, generator.standard_normal(shape), generator.uniform(0.3, 2.0, shape))


def naive(mixtures, frames):
    """Float64, one density at a time."""
    found = np.zeros((len(frames), mixtures.num_pdfs))
    for t, x in enumerate(frames.astype(np.float64)):
        for g, pdf in enumerate(mixtures.pdf_of_gaussian):
            v = mixtures.variances[g]
            density = np.prod(np.exp(-0.5 * (x - mixtures.means[g]) ** 2 / v) / np.sqrt(2 * np.pi * v))
            found[t, pdf] += mixtures.weights[g] * density
    return np.log(found)


def test_log_likelihoods_are_those_of_the_formula():
    mixtures, frames = random_mixtures(), np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
    np.testing.assert_allclose(mixtures.log_likelihoods(frames), naive(mixtures, frames), atol=1e-4)


def test_chosen_pdfs_in_any_order():
    mixtures, frames = random_mixtures(), np.random.default_rng(1).standard_normal((5, 4))
    chosen = mixtures.log_likelihoods(frames, pdfs=np.array([2, 0]))
    np.testing.assert_allclose(chosen, mixtures.log_likelihoods(frames)[:, [2, 0]], atol=1e-5)


def test_equal_to_kaldi():
    mixtures, frame = random_mixtures(sizes=(3,)), np.array([0.1, -0.5, 0.3, 1.0], dtype=np.float32)
    gmm = kaldi_hmm_gmm.DiagGmm(3, 4)
    gmm.set_weights(mixtures.weights.astype(np.float32))
    gmm.set_invvars_and_means((1 / mixtures.variances).astype(np.float32), mixtures.means.astype(np.float32))
    gmm.compute_gconsts()
    assert mixtures.log_likelihoods(frame[None])[0, 0] == pytest.approx(gmm.log_likelihood(frame), abs=1e-4)


def test_saved_and_loaded(tmp_path):
    mixtures = random_mixtures()
    mixtures.save(tmp_path / "mixtures.safetensors")
    loaded = Mixtures.load(tmp_path / "mixtures.safetensors")
    for name in ("sizes", "weights", "means", "variances"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(mixtures, name))


def test_bad_shapes_are_named():
    with pytest.raises(ValueError, match="sizes must be at least 1 and sum to the 2"):
        Mixtures(np.array([1, 0]), np.ones(2), np.zeros((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match="variances must be positive"):
        Mixtures(np.array([1]), np.ones(1), np.zeros((1, 3)), np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"frames must be \[T, 4\], got \[2, 3\]"):
        random_mixtures().log_likelihoods(np.zeros((2, 3)))
