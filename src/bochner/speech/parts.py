"""Train, heldout, dev and test: every speaker in one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bochner.checks import nonnegative_float, nonnegative_int, one_of
from bochner.speech.manifest import PARTS

SHARES = {"train": 0.7, "heldout": 0.1, "dev": 0.1, "test": 0.1}


def split_speakers(
    speakers: Iterable[str],
    *,
    seed: int,
    sizes: Mapping[str, float] | None = None,
    alike: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The part of each speaker: a shuffle by `seed`, cut after `sizes`.

    `sizes` gives for each part a number of speakers that sums to all of them, or shares that sum to one (of which
    every part gets at least a speaker); `alike` names each speaker's group, such as the sex, which then is spread over
    the parts as evenly as their sizes allow. The order in which speakers come does not matter.

    >>> split_speakers(["ann", "bob", "cy", "dee"], seed=0, sizes={"train": 3, "test": 1})
    {'ann': 'train', 'bob': 'train', 'cy': 'train', 'dee': 'test'}
    """
    names = sorted(set(speakers))
    counts = _counts(dict(SHARES) if sizes is None else dict(sizes), len(names))
    order = np.random.default_rng(nonnegative_int("seed", seed)).permutation(len(names))
    shuffled = _interleaved([names[i] for i in order], alike or {})
    parts = [part for part in PARTS for _ in range(counts.get(part, 0))]
    found = dict(zip(shuffled, parts, strict=True))
    return {name: found[name] for name in names}


def _counts(sizes: dict[str, float], num_speakers: int) -> dict[str, int]:
    for part, size in sizes.items():
        one_of("sizes", part, PARTS)
        nonnegative_float(f"sizes[{part!r}]", size)
    total = sum(sizes.values())
    if all(isinstance(size, int) for size in sizes.values()):
        if total != num_speakers:
            raise ValueError(f"sizes must sum to the {num_speakers} speakers, got {sizes} (sum {total}).")
        return {part: int(size) for part, size in sizes.items()}
    if abs(total - 1.0) > 1e-9:
        raise ValueError(f"sizes must be whole numbers of speakers or shares that sum to 1, got {sizes} (sum {total}).")
    return _largest_remainders({part: size for part, size in sizes.items() if size > 0}, num_speakers)


def _largest_remainders(shares: dict[str, float], num_speakers: int) -> dict[str, int]:
    """Whole numbers nearest to the shares of `num_speakers` that sum to it, one at least each."""
    if num_speakers < len(shares):
        raise ValueError(
            f"{len(shares)} parts need at least as many speakers, got {num_speakers}; give sizes with fewer parts."
        )
    spare = num_speakers - len(shares)
    wanted = {part: max(share * num_speakers - 1, 0.0) for part, share in shares.items()}
    scale = spare / max(sum(wanted.values()), 1e-12)
    counts = {part: 1 + int(scale * size) for part, size in wanted.items()}
    by_remainder = sorted(wanted, key=lambda part: int(scale * wanted[part]) - scale * wanted[part])
    for part in by_remainder[: num_speakers - sum(counts.values())]:
        counts[part] += 1
    return counts


def _interleaved(shuffled: list[str], alike: Mapping[str, str]) -> list[str]:
    """The groups' members in turn, each group spread evenly, so that any stretch holds about its share of each."""
    members: dict[str, list[str]] = {}
    for name in shuffled:
        members.setdefault(alike.get(name, ""), []).append(name)
    places = {name: (k + 0.5) / len(group) for group in members.values() for k, name in enumerate(group)}
    return sorted(shuffled, key=lambda name: places[name])  # a stable sort: ties stay shuffled
