"""Boundaries by posterior probabilities, against the enumeration of all paths."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bochner.speech.align import boundaries
from bochner.speech.align.boundaries import SpectralChange, median_starts, refined_starts
from bochner.speech.frontend import Fbank


def naive_distribution(scores: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """P(phone k begins at frame t) [T, n], from all paths through all states."""
    T, N = scores.shape
    num_states, result = N // begins.shape[1], np.zeros(begins.shape)
    for changes in combinations(range(1, T), N - 1):  # the frames at which the second, third, ... state begins
        states = np.searchsorted(changes, np.arange(T), side="right")
        starts = np.append(0, changes)[::num_states]
        score = scores[np.arange(T), states].sum() + sum(begins[starts[k], k] for k in range(1, len(starts)))
        result[starts, np.arange(len(starts))] += np.exp(score)
    return result / result.sum(axis=0)


@pytest.mark.parametrize(("num_phones", "num_states"), [(2, 1), (5, 1), (2, 2), (2, 3)])
def test_medians_are_those_of_all_paths(num_phones: int, num_states: int) -> None:
    generator = np.random.default_rng(0)
    for _ in range(3):
        scores = generator.standard_normal((10, num_phones * num_states))
        begins = generator.standard_normal((10, num_phones))
        medians = median_starts(scores, begins)
        assert medians[0] == 0.0
        distribution = naive_distribution(scores, begins)
        frames = np.arange(10)[:, None]
        covered = np.clip(medians - (frames - 0.5), 0.0, 1.0)  # the share of each frame that lies before the median
        np.testing.assert_allclose((distribution * covered).sum(axis=0)[1:], 0.5, atol=1e-9)


def chain(num_phones: int, *, noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States [n, 3], the frames at which phones begin, and scores [T, 3 n] that know them up to noise."""
    generator = np.random.default_rng(0)
    lengths = generator.integers(6, 20, num_phones)
    starts = np.cumsum(lengths) - lengths
    pdfs = np.arange(3 * num_phones).reshape(-1, 3)
    true = np.concatenate([np.repeat(3 * k + np.arange(3), np.diff(np.linspace(0, length, 4).astype(int)))
                           for k, length in enumerate(lengths)])  # fmt: skip
    scores = noise * generator.standard_normal((len(true), pdfs.size))
    scores[np.arange(len(true)), true] += 100.0
    return pdfs, starts, scores


def refined(pdfs: np.ndarray, starts: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Boundaries by scores alone."""
    part = lambda first, last, wanted: scores[first:last, wanted]  # noqa: E731
    return refined_starts(pdfs, starts, part, np.zeros(len(scores)), np.zeros(len(pdfs)))


def test_known_boundaries_are_found_from_rough_ones() -> None:
    pdfs, starts, scores = chain(35, noise=5.0)
    rough = starts + np.random.default_rng(1).integers(-2, 3, len(starts)) * (starts > 0)
    assert np.abs(refined(pdfs, rough, scores) - starts).max() < 1.0


def test_chunks_do_not_change_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    pdfs, starts, scores = chain(35, noise=20.0)
    chunks = refined(pdfs, starts, scores)
    monkeypatch.setattr(boundaries, "CHUNK", 100)
    np.testing.assert_allclose(chunks, refined(pdfs, starts, scores), atol=0.05)


def test_a_long_pause_is_not_read_in_whole() -> None:
    pdfs, starts, scores = chain(9, noise=5.0)
    place, length = int(starts[4]) + 4, 5000  # the fifth phone becomes long
    scores = np.insert(scores, [place] * length, scores[place - 1], axis=0)
    starts[5:] += length
    spans = []

    def part(first: int, last: int, wanted: np.ndarray) -> np.ndarray:
        spans.append(last - first)
        return scores[first:last, wanted]

    found = refined_starts(pdfs, starts, part, np.zeros(len(scores)), np.zeros(len(pdfs)))
    assert np.abs(found - starts).max() < 1.0
    assert max(spans) < 500


def test_phones_begin_where_the_spectrum_changes_unless_their_exponent_is_zero() -> None:
    """Scores that say nothing: the boundary lies in the middle, or at the frame of the greatest change."""
    pdfs, starts, flat, log_changes = np.array([[0], [1]]), np.array([0, 20]), np.zeros((40, 2)), np.zeros(40)
    log_changes[28] = 3.0
    part = lambda first, last, wanted: flat[first:last, wanted]  # noqa: E731
    for exponent, expected in ((0.0, 20.0), (3.0, 28.0)):
        found = refined_starts(pdfs, starts, part, log_changes, np.array([0.0, exponent]))
        assert found[1] == pytest.approx(expected, abs=0.6)


RATE = 16000


def tones(*hertz: float, seconds: float = 0.3) -> np.ndarray:
    time = np.arange(round(seconds * RATE)) / RATE
    return np.concatenate([0.1 * np.sin(2 * np.pi * f * time) for f in hertz]).astype(np.float32)


def test_spectral_changes_are_norms_of_differences_of_mel_energies() -> None:
    samples, change = tones(300, 2000, 800), SpectralChange(RATE)
    blocks = np.split(samples, [100, 500, 5000, 5001])
    assert all(a is b for a, b in zip(change.through(blocks), blocks, strict=True))
    fbank = Fbank(rate=RATE, frame_length=0.02, frame_shift=0.005, num_bins=26, low=100.0, high=7000.0)
    for t in (0.1, 0.3, 0.605, 0.7):
        before, after = (fbank(samples[round((t + d - 0.01) * RATE) :][:320])[0] for d in (-0.01, 0.01))
        expected = np.log(np.linalg.norm(np.exp(0.2 * after) - np.exp(0.2 * before)) + 1e-3)
        assert change.log_changes(np.array([t])) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_the_spectrum_changes_most_between_two_tones() -> None:
    change, times = SpectralChange(RATE), np.arange(0.0, 0.9, 0.005)
    list(change.through([tones(300, 2000, 800)]))
    found = change.log_changes(times)
    places = np.argsort(found[:90])[-1], 90 + np.argsort(found[90:])[-1]
    assert times[list(places)] == pytest.approx([0.3, 0.6], abs=0.0051)
    assert np.array_equal(SpectralChange(RATE).log_changes(times), np.zeros(len(times)))  # of no samples
