"""Who hears what a step has to say."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str, str], None]
"""Takes a short name and what is to be said under it."""


def silent(name: str, text: str) -> None:
    """Nobody."""
