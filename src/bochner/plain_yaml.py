"""YAML as settings are written in it: plain values, written out, each key once."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]
from yaml.composer import ComposerError  # type: ignore[import-untyped]
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

DEEPEST = 32  # lists within lists and so on: PyYAML's time grows by the square of it


def read_yaml(text: str) -> Any:
    """The values that a text holds; anything but plain settings is a ValueError that says where.

    >>> read_yaml("seeds: [0, 1]")
    {'seeds': [0, 1]}
    >>> read_yaml("seeds: [0, 1]\\nseeds: 2")
    Traceback (most recent call last):
    ...
    ValueError: the key 'seeds' comes twice
      in "<unicode string>", line 2, column 1:
        seeds: 2
        ^
    """
    try:
        return yaml.load(text, Loader=PlainLoader)
    except Exception as error:  # PyYAML fails in many ways: a month 13, a number without digits, a tag it does not know
        raise ValueError(str(error)) from error


class PlainLoader(yaml.SafeLoader):
    """Refuses what PyYAML takes and settings never mean.

    Aliases: ten lines of them say more than memory holds. Keys that come twice: the first would be lost in silence.
    Thousands of brackets: they take minutes, and then no more stack is left.
    """

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        here = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases (*name) are not taken: write it out", here)
        if self.depth > DEEPEST:
            raise ComposerError(None, None, f"nothing may stand more than {DEEPEST} levels deep", here)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(found) < len(node.value):
            key = self._second(node)
            raise ConstructorError(None, None, f"the key {key.value!r} comes twice", key.start_mark)
        return found

    def _second(self, node: Any) -> Any:
        """The first key that repeats another."""
        names: set[Any] = set()
        for key, _ in node.value:
            if (name := self.construct_object(key)) in names:
                break
            names.add(name)
        return key
