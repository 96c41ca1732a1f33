"""JSON as it is read back from files that may have been damaged, or made to do harm."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """`json.loads` of which every failure is a ValueError: text nested too deeply for Python's parser as well.

    >>> parse_json('{"words": ["yes"]}')
    {'words': ['yes']}
    >>> parse_json(b"[" * 100_000)
    Traceback (most recent call last):
    ...
    ValueError: the JSON is nested too deeply
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
