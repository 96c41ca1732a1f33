"""Clusters of recordings by speaker: a naive agglomeration, sentences of several speakers, blocks."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations

import numpy as np
import pytest

pytest.importorskip("kaldi_hmm_gmm")

from bochner.speech.frontend import speaker_clusters
from bochner.speech.frontend.postprocess import average_moments, group_moments
from bochner.speech.frontend.speaker_clusters import OFFSET, SLOPE, cluster_recordings
from bochner.speech.frontend.speaker_prior import PRIOR_FRAMES, SpeakerPrior

DIM = 8
PHONES = 1.5 * np.random.default_rng(5).standard_normal((10, DIM))


def voices(num_speakers: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The gain and the offset of each speaker."""
    gains = 1 + 0.1 * generator.standard_normal((num_speakers, DIM))
    return gains, generator.standard_normal((num_speakers, DIM))


def recording(num_phones: int, generator: np.random.Generator) -> np.ndarray:
    means = np.repeat(PHONES[generator.integers(0, len(PHONES), num_phones)], 12, axis=0)
    return means + generator.standard_normal(means.shape)


def recordings_of(num_speakers: int, each: int, *, num_phones: int, seed: int) -> tuple[list[np.ndarray], list[int]]:
    """Recordings in a random order, and the speaker of each."""
    generator = np.random.default_rng(seed)
    gains, offsets = voices(num_speakers, generator)
    speakers = generator.permutation(np.repeat(np.arange(num_speakers), each))
    return [gains[k] * recording(num_phones, generator) + offsets[k] for k in speakers], speakers.tolist()


@cache
def prior() -> SpeakerPrior:
    """That of eight other speakers."""
    generator = np.random.default_rng(0)
    gains, offsets = voices(8, generator)
    frames = {str(k): gains[k] * recording(120, generator) + offsets[k] for k in range(8)}
    moments = group_moments(frames.items())
    normal = [(frames[name] - own.mean) / own.std for name, own in moments.items()]
    return SpeakerPrior.fit(average_moments(moments.values()), normal)


def naive_maximum(statistics: np.ndarray, count: float) -> float:
    """The largest value of the objective on a fine grid of factors, each with its best offset."""
    L, Lz, Lzz, M, Mz = statistics + PRIOR_FRAMES * prior().statistics
    a = np.geomspace(0.1, 10.0, 20_000)[:, None]
    c = (M - a * Lz) / L
    values = (count + PRIOR_FRAMES) * np.log(a) - (a**2 * Lzz + 2 * a * c * Lz + c * c * L) / 2 + a * Mz + c * M
    return float(values.max(axis=0).sum())


def naive_clusters(recordings: list[np.ndarray]) -> list[list[int]]:
    sums = [prior().affine_statistics(frames) for frames in recordings]
    clusters = [[k] for k in range(len(recordings))]

    def value(members: list[int]) -> float:
        return naive_maximum(sum(sums[k] for k in members), sum(len(recordings[k]) for k in members))

    def cost(first: list[int], second: list[int]) -> float:
        a, b = (sum(math.sqrt(len(recordings[k])) for k in members) for members in (first, second))
        penalty = DIM * (OFFSET + SLOPE * a * b / (a + b))
        return value(first) + value(second) - value(first + second) - penalty

    while len(clusters) > 1:
        lost, first, second = min((cost(a, b), a, b) for a, b in combinations(clusters, 2))
        if lost >= 0:
            break
        clusters = [members for members in clusters if members not in (first, second)] + [first + second]
    return sorted(sorted(members) for members in clusters)


def test_the_maximum_is_that_of_a_grid() -> None:
    (frames, *_), _ = recordings_of(1, 1, num_phones=10, seed=0)
    statistics = prior().affine_statistics(frames)
    expected = naive_maximum(statistics, len(frames))
    assert prior().best_affine(statistics, len(frames))[1] == pytest.approx(expected, abs=1e-3)
    both = prior().best_affine(np.stack([statistics, 2 * statistics]), np.array([len(frames), 2 * len(frames)]))[1]
    assert both == pytest.approx([expected, naive_maximum(2 * statistics, 2 * len(frames))], abs=1e-3)


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_are_those_of_a_naive_agglomeration(seed: int) -> None:
    recordings, _ = recordings_of(3, 3, num_phones=10, seed=seed)
    clusters = cluster_recordings(prior(), iter(recordings))
    assert 1 < len(clusters) < len(recordings)
    assert clusters == naive_clusters(recordings)


def test_sentences_of_several_speakers_are_told_apart() -> None:
    """The share of recordings in clusters of their own speaker, and in the largest cluster of their speaker."""
    purity, coverage = [], []
    for seed in range(5):
        recordings, speakers = recordings_of(5, 8, num_phones=25, seed=seed)
        clusters = cluster_recordings(prior(), recordings)
        counts = np.stack([np.bincount([speakers[k] for k in members], minlength=5) for members in clusters])
        purity.append(counts.max(axis=1).sum() / len(speakers))
        coverage.append(counts.max(axis=0).sum() / len(speakers))
    assert np.mean(purity) > 0.9
    assert np.mean(coverage) > 0.9


def test_blocks_of_recordings_join_the_clusters_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    recordings, speakers = recordings_of(3, 10, num_phones=40, seed=0)
    recordings = [frames + speaker for frames, speaker in zip(recordings, speakers, strict=True)]
    whole = cluster_recordings(prior(), recordings)
    assert whole == sorted([k for k, own in enumerate(speakers) if own == speaker] for speaker in range(3))
    monkeypatch.setattr(speaker_clusters, "BLOCK", 7)
    assert cluster_recordings(prior(), recordings) == whole


def test_no_recording_and_one_recording() -> None:
    assert cluster_recordings(prior(), []) == []
    assert cluster_recordings(prior(), [recording(3, np.random.default_rng(0))]) == [[0]]
