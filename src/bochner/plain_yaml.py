"""YAML for settings: plain values only, no aliases, each key once."""

from __future__ import annotations

from typing import Any

import yaml  # type: ignore[import-untyped]
from yaml.composer import ComposerError  # type: ignore[import-untyped]
from yaml.constructor import ConstructorError  # type: ignore[import-untyped]

MAX_DEPTH = 32  # of nested lists and mappings: the time of PyYAML grows with its square


def read_yaml(text: str) -> Any:
    """The values in a YAML text; anything but plain settings is a ValueError with its position in the text.

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
    except Exception as error:  # PyYAML raises many types: for a month 13, a number without digits, an unknown tag
        raise ValueError(str(error)) from error


class PlainLoader(yaml.SafeLoader):
    """Refuses what PyYAML accepts and settings never need.

    Aliases: a few lines can expand beyond all memory. Duplicate keys: the first would be lost silently. Thousands of
    nested brackets: they take minutes and overflow the stack.
    """

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark
        if self.check_event(yaml.AliasEvent):
            raise ComposerError(None, None, "aliases (*name) are not allowed: write the value out", mark)
        if self.depth > MAX_DEPTH:
            raise ComposerError(None, None, f"values may be nested at most {MAX_DEPTH} levels deep", mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        names: set[Any] = set()
        for key, _ in node.value:
            if (name := self.construct_object(key)) in names:
                raise ConstructorError(None, None, f"the key {key.value!r} comes twice", key.start_mark)
            names.add(name)
        return mapping
