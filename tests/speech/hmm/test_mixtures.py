from __future__ import annotations

import numpy as np
import pytest

from bochner.speech.hmm.mixtures import Mixtures, MixtureStatistics, accumulate, best_gaussians, split, update
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


def labelled(mixtures, num_frames=300, seed=3):
    generator = np.random.default_rng(seed)
    frames = generator.standard_normal((num_frames, mixtures.dim)).astype(np.float32)
    return frames, generator.integers(mixtures.num_pdfs, size=num_frames)


def naive_statistics(mixtures, frames, pdfs):
    occupancy = np.zeros(mixtures.num_gaussians)
    first = np.zeros_like(mixtures.means)
    second = np.zeros_like(mixtures.means)
    for x, pdf in zip(frames.astype(np.float64), pdfs, strict=True):
        rows = np.flatnonzero(mixtures.pdf_of_gaussian == pdf)
        logs = np.log(mixtures.weights[rows]) - 0.5 * np.sum(
            np.log(2 * np.pi * mixtures.variances[rows]) + (x - mixtures.means[rows]) ** 2 / mixtures.variances[rows], 1
        )
        posterior = np.exp(logs) / np.exp(logs).sum()
        occupancy[rows] += posterior
        first[rows] += posterior[:, None] * x
        second[rows] += posterior[:, None] * x**2
    return occupancy, first, second


def test_statistics_are_posterior_weighted_sums():
    mixtures = random_mixtures()
    frames, pdfs = labelled(mixtures)
    statistics = accumulate(mixtures, frames, pdfs)
    for found, expected in zip(
        (statistics.occupancy, statistics.first, statistics.second),
        naive_statistics(mixtures, frames, pdfs),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, atol=1e-3)
    expected = mixtures.log_likelihoods(frames)[np.arange(len(frames)), pdfs].sum()
    assert statistics.log_likelihood == pytest.approx(expected, rel=1e-5)
    assert statistics.num_frames == pytest.approx(len(frames))


def test_statistics_add_up():
    mixtures = random_mixtures()
    frames, pdfs = labelled(mixtures)
    halves = accumulate(mixtures, frames[:99], pdfs[:99]) + accumulate(mixtures, frames[99:], pdfs[99:])
    np.testing.assert_allclose(halves.second, accumulate(mixtures, frames, pdfs).second, rtol=1e-4)


def test_every_update_raises_the_likelihood():
    mixtures = random_mixtures(sizes=(2, 4))
    frames, pdfs = labelled(mixtures, num_frames=2000)
    reached = []
    for _ in range(6):
        statistics = accumulate(mixtures, frames, pdfs)
        reached.append(statistics.log_likelihood)
        mixtures = update(mixtures, statistics)
    assert (np.diff(reached) > 0).all()


def test_one_gaussian_becomes_the_moments_of_its_frames():
    start = random_mixtures(sizes=(1,))
    frames, pdfs = labelled(start)
    fitted = update(start, accumulate(start, frames, pdfs))
    np.testing.assert_allclose(fitted.means[0], frames.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(fitted.variances[0], frames.var(axis=0), atol=1e-4)


def test_rare_gaussians_are_dropped_but_never_the_last_of_a_pdf():
    mixtures = random_mixtures(sizes=(2, 2))
    occupancy = np.array([50.0, 1.0, 0.5, 1.0])
    statistics = MixtureStatistics(occupancy, np.ones((4, 4)), np.full((4, 4), 5.0), 0.0)
    updated = update(mixtures, statistics, min_occupancy=3.0)
    assert updated.sizes.tolist() == [1, 1]
    np.testing.assert_array_equal(updated.means[1], mixtures.means[3])  # the heavier one, as it was
    np.testing.assert_allclose(updated.weights, 1.0)


def test_shared_variance_is_that_within_all_pdfs():
    start = random_mixtures(sizes=(1, 1, 1))
    frames, pdfs = labelled(start)
    fitted = update(start, accumulate(start, frames, pdfs), shared_variance=True)
    means = np.stack([frames[pdfs == pdf].mean(axis=0) for pdf in range(3)])
    within = ((frames - means[pdfs]) ** 2).mean(axis=0)
    np.testing.assert_allclose(fitted.variances, np.tile(within, (3, 1)), rtol=1e-3)


def test_a_pdf_without_frames_stays_as_it_was():
    mixtures = random_mixtures(sizes=(1, 2))
    frames, _ = labelled(mixtures)
    updated = update(mixtures, accumulate(mixtures, frames, np.zeros(len(frames), dtype=int)))
    heaviest = 1 + np.argmax(mixtures.weights[1:])
    np.testing.assert_array_equal(updated.means[-1], mixtures.means[heaviest])


def test_splitting_gives_more_to_those_with_more_frames():
    mixtures = random_mixtures(sizes=(1, 1, 1))
    counts = np.array([10_000.0, 100.0, 30.0])
    grown = split(mixtures, counts=counts, num_gaussians=12, generator=np.random.default_rng(0))
    assert grown.num_gaussians == 12
    assert grown.sizes[0] > grown.sizes[1] > grown.sizes[2] == 1  # 30 frames are too few for two of 20
    np.testing.assert_allclose(np.add.reduceat(grown.weights, grown.offsets[:-1]), 1.0)
    np.testing.assert_allclose(
        grown.weights[: grown.sizes[0]] @ grown.means[: grown.sizes[0]], mixtures.means[0], atol=0.05
    )


def test_splitting_depends_on_nothing_but_its_generator():
    mixtures = random_mixtures()
    once, again = (
        split(mixtures, counts=np.full(3, 1e4), num_gaussians=20, generator=np.random.default_rng(5)) for _ in range(2)
    )
    np.testing.assert_array_equal(once.means, again.means)


def test_splitting_stops_where_frames_run_out():
    mixtures = random_mixtures(sizes=(1, 1))
    grown = split(mixtures, counts=np.array([50.0, 10.0]), num_gaussians=100, generator=np.random.default_rng(0))
    assert grown.sizes.tolist() == [2, 1]


def test_best_gaussians_are_the_likeliest_of_their_pdf():
    mixtures = random_mixtures()
    frames, pdfs = labelled(mixtures)
    everything = mixtures.component_log_likelihoods(frames, slice(None))
    allowed = mixtures.pdf_of_gaussian == pdfs[:, None]
    np.testing.assert_array_equal(
        best_gaussians(mixtures, frames, pdfs), np.where(allowed, everything, -np.inf).argmax(axis=1)
    )


def test_growth_then_em_parts_two_clusters():
    generator = np.random.default_rng(0)
    frames = np.concatenate([generator.normal(-3, 1, (500, 1)), generator.normal(3, 1, (500, 1))]).astype(np.float32)
    mixtures, pdfs = Mixtures(np.ones(1, int), np.ones(1), np.zeros((1, 1)), np.ones((1, 1))), np.zeros(1000, int)
    mixtures = update(mixtures, accumulate(mixtures, frames, pdfs))
    mixtures = split(mixtures, counts=np.array([1000.0]), num_gaussians=2, generator=generator, perturbation=0.3)
    for _ in range(30):
        mixtures = update(mixtures, accumulate(mixtures, frames, pdfs))
    np.testing.assert_allclose(np.sort(mixtures.means[:, 0]), [-3, 3], atol=0.2)
