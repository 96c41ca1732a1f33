"""The option --set: values of a recipe, by their path."""

from __future__ import annotations

from typing import Any

from bochner.plain_yaml import read_yaml


def changes_of(text: str | None) -> dict[str, Any]:
    """
    >>> changes_of("models.gaussian.rank: null, seeds: [0, 1]")
    {'models.gaussian.rank': None, 'seeds': [0, 1]}
    >>> changes_of("seeds=3")
    Traceback (most recent call last):
    ...
    ValueError: set must be `path: value, path: value`, such as "decoding.order: 3, seeds: [0, 1]", got 'seeds=3'.
    """
    try:
        found = read_yaml(f"{{{text or ''}}}")
    except ValueError:
        found = None
    if found is None or (text and ":" not in text):
        example = '"decoding.order: 3, seeds: [0, 1]"'
        raise ValueError(f"set must be `path: value, path: value`, such as {example}, got {text!r}.")
    return {str(path): value for path, value in found.items()}
