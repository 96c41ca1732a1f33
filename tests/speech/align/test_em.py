import numpy as np

from bochner.speech.align.em import (
    estimate_fmllr,
    estimate_mllt,
    single_gaussians,
    statistics_of,
    with_transformed_means,
)
from bochner.speech.align.gmm_hmm import View, ViewedFrames, blocks
from bochner.speech.frontend.postprocess import transform
from bochner.speech.hmm.contexts import EventStatistics
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import monophone_hmm

MEANS = np.random.default_rng(0).standard_normal((8, 3)) * 4
MIXTURES = Mixtures(np.ones(8, int), np.ones(8), MEANS, np.full((8, 3), 0.1))


def sampled_frames(matrix, seed, num_frames=1200):
    """Frames whose transform by `matrix` [A, b] fits the mixtures."""
    generator = np.random.default_rng(seed)
    pdfs = generator.integers(8, size=num_frames)
    right = MEANS[pdfs] + np.sqrt(0.1) * generator.standard_normal((num_frames, 3))
    return ((right - matrix[:, 3]) @ np.linalg.inv(matrix[:, :3]).T).astype(np.float32), pdfs


def test_each_speaker_gets_the_transform_that_fits():
    generator = np.random.default_rng(1)
    true = {
        name: np.hstack([np.eye(3) + 0.2 * generator.standard_normal((3, 3)), [[1.0], [-2.0], [0.5]]]) for name in "ab"
    }
    frames, pdfs = zip(*(sampled_frames(true[name], seed) for seed, name in enumerate("ab")), strict=True)
    frames_by_id, labels = dict(zip("uv", frames, strict=True)), dict(zip("uv", pdfs, strict=True))
    seen = ViewedFrames(frames_by_id, View(), {"u": "a", "v": "b"})
    found = estimate_fmllr(MIXTURES, seen, labels)
    for name in "ab":
        np.testing.assert_allclose(found[name], true[name], atol=0.05)


def test_a_second_round_continues_from_the_first():
    """Estimated on adapted frames, composed with the transform that adapted them."""
    true = np.hstack([np.eye(3) * 0.8, [[1.0], [-2.0], [0.5]]])
    frames, pdfs = sampled_frames(true, seed=3)
    crude = np.hstack([np.eye(3) * 0.5, [[3.0], [1.0], [1.0]]])
    seen = ViewedFrames({"u": frames}, View(), {"u": "a"}, {"a": crude})
    np.testing.assert_allclose(estimate_fmllr(MIXTURES, seen, {"u": pdfs})["a"], true, atol=0.05)


def test_speakers_with_few_words_and_silence_are_not_adapted():
    frames, pdfs = sampled_frames(np.hstack([np.eye(3) * 0.5, np.ones((3, 1))]), seed=4)
    seen = ViewedFrames({"u": frames}, View(), {"u": "a"})
    few = estimate_fmllr(MIXTURES, seen, {"u": pdfs}, min_count=5000.0)
    silent = estimate_fmllr(MIXTURES, seen, {"u": pdfs}, ignored=range(8))
    for found in (few, silent):
        np.testing.assert_array_equal(found["a"], np.eye(3, 4))


def test_mllt_undoes_correlations():
    generator = np.random.default_rng(5)
    mixing = np.array([[1.0, 0.9, 0.0], [0.0, 0.5, 0.0], [0.3, 0.0, 1.0]])
    pdfs = generator.integers(8, size=4000)
    frames = (MEANS[pdfs] + generator.standard_normal((4000, 3)) @ mixing.T).astype(np.float32)
    variances = np.tile(np.var(frames - MEANS[pdfs], axis=0), (8, 1))
    mixtures = Mixtures(np.ones(8, int), np.ones(8), MEANS, variances)
    matrix = estimate_mllt(mixtures, {"u": frames}, {"u": pdfs}, max_frames=2000)
    left = (frames - MEANS[pdfs]) @ matrix.T
    correlations = np.corrcoef(left.T)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 0.06
    np.testing.assert_allclose(with_transformed_means(mixtures, matrix).means, MEANS @ matrix.T)


def test_views_stack_what_they_are_asked_for():
    frames = np.random.default_rng(6).standard_normal((9, 2)).astype(np.float32)
    assert View(deltas=2)(frames).shape == (9, 6)
    assert View(context=4)(frames).shape == (9, 18)
    matrix = np.random.default_rng(7).standard_normal((3, 10))
    np.testing.assert_allclose(View(context=2, matrix=matrix)(frames), transform(View(context=2)(frames), matrix))


def test_cached_frames_are_computed_once():
    cache: dict[str, np.ndarray] = {}
    viewed = ViewedFrames({"u": np.ones((4, 2), np.float32)}, View(deltas=1), cache=cache)
    assert viewed["u"] is viewed["u"] is cache["u"]


def test_blocks_hold_all_frames_in_order():
    labels = {str(number): np.full(number, number) for number in range(1, 8)}
    frames = {name: np.column_stack([row, row]) for name, row in labels.items()}
    found = list(blocks(frames, labels, size=10))
    assert len(found) > 1
    np.testing.assert_array_equal(np.concatenate([y for _, y in found]), np.concatenate(list(labels.values())))
    assert all((X[:, 0] == y).all() for X, y in found)


def test_a_pdf_that_was_never_seen_starts_as_all_frames():
    hmm = monophone_hmm(phones=["a", "b"], num_states=1)
    events = np.array([[0, 1, 0, 0]])
    mixtures = single_gaussians(hmm, EventStatistics(events, np.array([[20.0, 40.0, 100.0]])))
    np.testing.assert_allclose(mixtures.means, [[2.0], [2.0]])
    np.testing.assert_allclose(mixtures.variances, [[1.0], [1.0]])


def test_sums_of_events_by_group_of_speakers():
    """The group is a further column of the events; one group needs none."""
    frames = {name: np.full((2, 1), value, np.float32) for name, value in {"a1": 1.0, "a2": 2.0, "b1": 5.0}.items()}
    seen = ViewedFrames(frames, View(), {"a1": "ann", "a2": "ann", "b1": "bob"})
    events = dict.fromkeys(frames, np.zeros((2, 4), np.int64))
    single = statistics_of(events, seen)
    assert single.events.tolist() == [[0, 0, 0, 0]]
    assert single.sums.tolist() == [[6.0, 16.0, 60.0]]
    grouped = statistics_of(events, seen, num_groups=2)
    assert grouped.events.tolist() == [[0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert grouped.sums.tolist() == [[4.0, 6.0, 10.0], [2.0, 10.0, 50.0]]
