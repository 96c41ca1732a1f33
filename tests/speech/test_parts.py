"""Parts: every speaker once, as many as asked for, by the seed alone."""

from __future__ import annotations

from collections import Counter

import pytest

from bochner.speech.manifest import split_speakers

NAMES = [f"{'fm'[k % 2]}{k}" for k in range(40)]


def test_counts_follow_the_shares():
    assert Counter(split_speakers(NAMES, seed=0).values()) == {"train": 28, "heldout": 4, "dev": 4, "test": 4}
    assert Counter(split_speakers(NAMES[:4], seed=0).values()) == dict.fromkeys(["train", "heldout", "dev", "test"], 1)


@pytest.mark.parametrize("count", range(4, 30))
def test_all_are_placed_and_no_part_is_empty(count):
    found = Counter(split_speakers(NAMES[:count], seed=1).values())
    assert found.total() == count
    assert len(found) == 4
    assert found["train"] == max(found.values())


def test_only_seed_and_names_decide():
    first = split_speakers(NAMES, seed=3)
    assert split_speakers(reversed(NAMES + NAMES), seed=3) == first
    assert split_speakers(NAMES, seed=4) != first


def test_groups_are_spread_evenly():
    sexes = {name: name[0] for name in NAMES}
    for seed in range(20):
        parts = split_speakers(NAMES, seed=seed, alike=sexes)
        women = Counter(parts[name] for name in NAMES if name[0] == "f")
        assert women == {"train": 14, "heldout": 2, "dev": 2, "test": 2}


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"train": 3, "test": 2}, "sum to the 4 speakers"),
        ({"train": 0.7, "test": 0.2}, "sum to 1"),
        ({"eval": 4}, "must be one of"),
        ({"train": -1, "test": 5}, "non-negative"),
    ],
)
def test_wrong_sizes_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        split_speakers(NAMES[:4], seed=0, sizes=sizes)


def test_too_few_speakers_for_the_parts():
    with pytest.raises(ValueError, match="4 parts need at least as many speakers, got 3"):
        split_speakers(NAMES[:3], seed=0)
