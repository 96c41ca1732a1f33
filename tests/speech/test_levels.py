"""Levels of recordings, and the pauses at which long ones are cut."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from bochner.speech.levels import MAX_PART, MIN_PART, LevelMeter


def metered(samples: np.ndarray, *, rate: int, edges: tuple[int, ...] = ()) -> LevelMeter:
    meter = LevelMeter(rate)
    deque(meter.through(np.split(samples.astype(np.float32), edges)), maxlen=0)
    return meter


def test_levels_do_not_depend_on_blocks() -> None:
    samples = np.random.default_rng(0).standard_normal(2010)
    whole, parts = (metered(samples, rate=8000, edges=edges) for edges in ((), (1, 250, 1999)))
    assert len(whole.levels) == 11
    np.testing.assert_array_equal(parts.levels, whole.levels)
    assert whole.levels[0] == pytest.approx(np.sqrt((samples[:200] ** 2).mean()))
    assert whole.duration == 2010 / 8000


@pytest.mark.parametrize("rate", [8000, 11025])
def test_long_recordings_are_cut_in_pauses(rate: int) -> None:
    generator = np.random.default_rng(0)
    pauses = np.cumsum(generator.uniform(3, 9, 40))
    times = np.arange(int(200 * rate)) / rate
    quiet = (np.abs(times[:, None] - pauses) < 0.25).any(axis=1)
    meter = metered(generator.standard_normal(len(times)) * np.where(quiet, 1e-3, 0.1), rate=rate)
    parts = meter.parts()
    assert parts[0][0] == 0.0
    for start, levels in parts[1:]:
        assert np.abs(pauses - start).min() < 0.25
        assert MIN_PART <= len(levels) <= MAX_PART
    assert sum(len(levels) for _, levels in parts) == len(meter.levels)


def test_a_recording_of_half_a_minute_is_one_part() -> None:
    noise = np.random.default_rng(0).standard_normal(30 * 8000)
    assert len(metered(noise, rate=8000).parts()) == 1
    assert len(metered(np.append(noise, noise[:400]), rate=8000).parts()) == 2
