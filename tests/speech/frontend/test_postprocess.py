"""Splicing, deltas and normalisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bochner.speech.frames import write_frames
from bochner.speech.frontend import add_deltas, group_moments, normalize, splice, transform, write_normalized
from bochner.speech.frontend.postprocess import average_moments, delta_filters, stored_prior
from tests.speech.frontend import oracles


def frames(num: int, dim: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((num, dim)).astype(np.float32)


@given(T=st.integers(1, 12), left=st.integers(0, 15), right=st.integers(0, 15))
def test_splice_by_hand(T: int, left: int, right: int) -> None:
    X = frames(T, 2)
    found = splice(X, left=left, right=right)
    assert found.dtype == np.float32
    for t in range(T):
        expected = [X[min(max(t + j, 0), T - 1)] for j in range(-left, right + 1)]
        np.testing.assert_array_equal(found[t], np.concatenate(expected))


@given(T=st.integers(1, 12), order=st.integers(0, 3), window=st.integers(1, 3))
def test_deltas_by_hand(T: int, order: int, window: int) -> None:
    X = frames(T, 2)
    expected = oracles.deltas(X.astype(float), order, window)
    np.testing.assert_allclose(add_deltas(X, order=order, window=window), expected, atol=1e-6)


def test_kaldis_filters() -> None:
    second = np.array([4, 4, 1, -4, -10, -4, 1, 4, 4]) / 100
    np.testing.assert_allclose(delta_filters(order=2, window=2)[2], second, atol=1e-12)


def test_transform_with_and_without_offset() -> None:
    X, A, b = frames(5), np.arange(6.0).reshape(2, 3), np.array([10.0, 20.0])
    np.testing.assert_allclose(transform(X, A), X @ A.T, rtol=1e-5)
    np.testing.assert_allclose(transform(X, np.column_stack([A, b])), X @ A.T + b, rtol=1e-5)
    with pytest.raises(ValueError, match=r"matrix must have shape \[r, 3\] or \[r, 4\]"):
        transform(X, np.eye(5))


@pytest.mark.parametrize("change", [lambda X: splice(X, left=1, right=1), add_deltas])
@pytest.mark.parametrize("shape", [(0, 3), (3,), (3, 0), (2, 2, 2)])
def test_what_is_no_frames(change: object, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="frames must have shape"):
        change(np.zeros(shape))  # type: ignore[operator]


def test_speakers_are_normalised_over_all_their_utterances(tmp_path: Path) -> None:
    sizes = {"a1": 5, "b1": 40, "a2": 30, "a3": 1}
    made = {name: 5 * frames(size, seed=i) + 100 * i for i, (name, size) in enumerate(sizes.items())}
    store = write_frames(tmp_path / "raw", made.items(), about={"kind": "mfcc"})
    found = write_normalized(store, tmp_path / "normal", groups={name: name[0] for name in made})
    assert found.ids == store.ids
    assert found.about == {"kind": "mfcc", "cmvn": {"by": "group", "variance": True}}
    whole = np.concatenate([made[name] for name in ("a1", "a2", "a3")]).astype(float)
    for name in made:
        of = made["b1"].astype(float) if name == "b1" else whole
        np.testing.assert_allclose(found[name], (made[name] - of.mean(0)) / of.std(0), atol=1e-4)


def test_utterances_are_normalised_alone(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "raw", [("a", 5 * frames(9) + 7), ("b", frames(20, seed=1))])
    for array in write_normalized(store, tmp_path / "normal").values():
        np.testing.assert_allclose(array.mean(0), 0, atol=1e-6)
        np.testing.assert_allclose(array.std(0), 1, atol=1e-5)


def test_only_the_mean(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "raw", [("a", 5 * frames(9) + 7)])
    found = write_normalized(store, tmp_path / "normal", variance=False)
    np.testing.assert_allclose(found["a"], store["a"] - store["a"].mean(0), atol=1e-5)


def test_a_mean_far_from_zero_in_many_pieces() -> None:
    X = 1e8 + np.random.default_rng(0).standard_normal((900, 2))
    found = group_moments(("one", X[i : i + 7]) for i in range(0, 900, 7))["one"]
    assert found.num_frames == 900
    np.testing.assert_allclose(found.mean, X.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.std, X.std(0), rtol=1e-6)


@pytest.mark.parametrize("level", [0.0, -15.94238, 1e4])
def test_a_column_that_only_varies_by_rounding_is_only_centred(level: float) -> None:
    X = np.full((50, 1), level, np.float32)
    X[::2] = np.nextafter(X[::2], np.float32(np.inf))
    moments = group_moments([("s", X[:20]), ("s", X[20:])])["s"]
    np.testing.assert_allclose(normalize(X, moments), 0, atol=1e-3)


def test_a_speaker_is_missing(tmp_path: Path) -> None:
    store = write_frames(tmp_path / "raw", [("a", frames(3)), ("b", frames(3))])
    with pytest.raises(ValueError, match=r"groups must name the speaker of each utterance, got none for \['b'\]"):
        write_normalized(store, tmp_path / "normal", groups={"a": "ann"})


def test_the_moments_of_short_speakers_are_smoothed_by_those_of_the_average_one(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    made = {"a": generator.normal(3, 2, (10_000, 2)), "b": generator.normal(-1, 1, (10_000, 2)), "c": np.ones((50, 2))}
    store = write_frames(tmp_path / "frames", [(name, X.astype("float32")) for name, X in made.items()])
    moments = group_moments(made.items())
    prior = average_moments([moments["a"], moments["b"]])
    np.testing.assert_allclose(prior.mean, 1.0, atol=0.1)
    np.testing.assert_allclose(prior.std**2, 2.5, atol=0.1)
    found = write_normalized(store, tmp_path / "normal", prior=prior)
    assert np.abs(found["a"].mean(axis=0)).max() < 0.03  # 10,000 frames against 100
    mean, std = prior.mean + (1 - prior.mean) / 3, prior.std * np.sqrt(2 / 3)  # 50 constant frames against 100
    np.testing.assert_allclose(found["c"], np.broadcast_to((1 - mean) / std, (50, 2)), atol=1e-4)
    again = stored_prior(found)
    assert again is not None
    np.testing.assert_array_equal(again.mean, prior.mean)
    assert stored_prior(store) is None
