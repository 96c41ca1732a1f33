"""YAML of settings: how deep it may be nested."""

from __future__ import annotations

import pytest

from bochner.plain_yaml import MAX_DEPTH, read_yaml


def test_values_may_be_nested_up_to_a_depth() -> None:
    value = read_yaml("[" * MAX_DEPTH + "7" + "]" * MAX_DEPTH)
    for _ in range(MAX_DEPTH):
        (value,) = value
    assert value == 7
    with pytest.raises(ValueError, match=f"at most {MAX_DEPTH} levels"):
        read_yaml("[" * (MAX_DEPTH + 1) + "7" + "]" * (MAX_DEPTH + 1))
