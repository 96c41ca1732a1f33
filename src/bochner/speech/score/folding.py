"""TIMIT's 61 phones folded to the 48 that are modelled and the 39 that are scored (Lee and Hon, 1989)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# The phones of 48 classes, in their 39: a class that is not named here is its own.
_TO_39 = {
    "ao": "aa", "ax": "ah", "cl": "sil", "vcl": "sil", "epi": "sil", "el": "l", "en": "n", "ix": "ih", "zh": "sh",
}  # fmt: skip
# The phones of 61 classes, in their 48. The glottal stop q has none: it is left out.
_TO_48 = {
    "ax-h": "ax", "axr": "er", "bcl": "vcl", "dcl": "vcl", "gcl": "vcl", "kcl": "cl", "pcl": "cl", "tcl": "cl",
    "em": "m", "eng": "ng", "nx": "n", "h#": "sil", "pau": "sil", "hv": "hh", "ux": "uw",
}  # fmt: skip
_SAME_IN_48 = (
    "aa", "ae", "ah", "ao", "aw", "ax", "ay", "b", "ch", "d", "dh", "dx", "eh", "el", "en", "epi", "er", "ey", "f", "g",
    "hh", "ih", "ix", "iy", "jh", "k", "l", "m", "n", "ng", "ow", "oy", "p", "r", "s", "sh", "t", "th", "uh", "uw", "v",
    "w", "y", "z", "zh",
)  # fmt: skip

PHONES_61 = tuple(sorted([*_SAME_IN_48, *_TO_48, "q"]))
PHONES_48 = tuple(sorted([*_SAME_IN_48, "cl", "vcl", "sil"]))
PHONES_39 = tuple(sorted({_TO_39.get(phone, phone) for phone in PHONES_48}))


def _composed() -> dict[str, dict[str, str | None]]:
    first: dict[str, str | None] = {phone: _TO_48.get(phone, phone) for phone in PHONES_61}
    first["q"] = None
    second: dict[str, str | None] = {phone: _TO_39.get(phone, phone) for phone in PHONES_48}
    both = {phone: None if found is None else second[found] for phone, found in first.items()}
    return {"61-48": first, "48-39": second, "61-39": both}


# Each folding as {phone: its class, or None where it is left out}.
FOLDINGS: Mapping[str, Mapping[str, str | None]] = MappingProxyType(_composed())


def fold(phones: tuple[str, ...], folding: str) -> tuple[str, ...]:
    """Each phone by its class; those without one are left out, and neighbours of one class stay apart.

    >>> fold(("h#", "sh", "ix", "hv", "eh", "dcl", "q"), "61-39")
    ('sil', 'sh', 'ih', 'hh', 'eh', 'sil')
    """
    table = FOLDINGS[folding]
    unknown = sorted({phone for phone in phones if phone not in table})
    if unknown:
        source = folding.partition("-")[0]
        raise ValueError(f"phones must be among TIMIT's {source} for the folding {folding}, got {unknown} besides.")
    return tuple(found for phone in phones if (found := table[phone]) is not None)
