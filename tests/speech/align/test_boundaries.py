"""Boundaries by posterior probabilities, against the enumeration of all paths."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bochner.speech.align import boundaries
from bochner.speech.align.boundaries import median_starts, refined_starts


def naive_distribution(scores: np.ndarray, num_states: int) -> np.ndarray:
    """P(phone k begins at frame t) [T, n], from all paths through all states."""
    T, N = scores.shape
    result = np.zeros((T, N // num_states))
    for changes in combinations(range(1, T), N - 1):  # the frames at which the second, third, ... state begins
        states = np.searchsorted(changes, np.arange(T), side="right")
        weight = np.exp(scores[np.arange(T), states].sum())
        result[np.append(0, changes)[::num_states], np.arange(N // num_states)] += weight
    return result / result.sum(axis=0)


@pytest.mark.parametrize(("num_phones", "num_states"), [(2, 1), (5, 1), (2, 2), (2, 3)])
def test_medians_are_those_of_all_paths(num_phones: int, num_states: int) -> None:
    generator = np.random.default_rng(0)
    for _ in range(3):
        scores = generator.standard_normal((10, num_phones * num_states))
        medians = median_starts(scores, num_states)
        assert medians[0] == 0.0
        distribution = naive_distribution(scores, num_states)
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


def test_known_boundaries_are_found_from_rough_ones() -> None:
    pdfs, starts, scores = chain(35, noise=5.0)
    rough = starts + np.random.default_rng(1).integers(-2, 3, len(starts)) * (starts > 0)
    refined = refined_starts(pdfs, rough, len(scores), lambda first, last, wanted: scores[first:last, wanted])
    assert np.abs(refined - starts).max() < 1.0


def test_chunks_do_not_change_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    pdfs, starts, scores = chain(35, noise=20.0)

    def refined() -> np.ndarray:
        return refined_starts(pdfs, starts, len(scores), lambda first, last, wanted: scores[first:last, wanted])

    chunks = refined()
    monkeypatch.setattr(boundaries, "CHUNK", 100)
    np.testing.assert_allclose(chunks, refined(), atol=0.05)


def test_a_long_pause_is_not_read_in_whole() -> None:
    pdfs, starts, scores = chain(9, noise=5.0)
    place, length = int(starts[4]) + 4, 5000  # the fifth phone becomes long
    scores = np.insert(scores, [place] * length, scores[place - 1], axis=0)
    starts[5:] += length
    spans = []

    def part(first: int, last: int, wanted: np.ndarray) -> np.ndarray:
        spans.append(last - first)
        return scores[first:last, wanted]

    assert np.abs(refined_starts(pdfs, starts, len(scores), part) - starts).max() < 1.0
    assert max(spans) < 500
