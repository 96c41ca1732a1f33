"""Trees in Kaldi's binary format, which its C++ reads back as a ContextDependency."""

from __future__ import annotations

import struct
from typing import Any

from bochner.speech.hmm.contexts import CENTRE, LEFT, RIGHT, STATE
from bochner.speech.hmm.model import tree_from_bytes
from bochner.speech.hmm.tree import Leaf, Node, Split, Tree

KEYS = {LEFT: 0, CENTRE: 1, RIGHT: 2, STATE: -1}  # Kaldi's names for the columns of an event
WIDTH, CENTRAL = 3, 1  # a phone with one neighbour on each side


def context_dependency(tree: Tree) -> Any:
    """The tree as kaldi_hmm_gmm's ContextDependency, with one phone of context on each side."""
    head = _token("ContextDependency") + _integer(WIDTH) + _integer(CENTRAL) + _token("ToPdf")
    return tree_from_bytes(head + _written(tree.root) + _token("EndContextDependency"))


def _written(node: Node) -> bytes:
    if isinstance(node, Leaf):
        return _token("CE") + _integer(node.pdf)
    if isinstance(node, Split):
        question = _token("SE") + _integer(KEYS[node.column]) + _integers(sorted(node.values))
        return question + _token("{") + _written(node.yes) + _written(node.no) + _token("}")
    size = max(node.branches) + 1
    branches = [node.branches.get(value) for value in range(size)]
    table = b"".join(_token("NULL") if branch is None else _written(branch) for branch in branches)
    return _token("TE") + _integer(KEYS[node.column]) + _unsigned(size) + _token("(") + table + _token(")")


def _token(name: str) -> bytes:
    return name.encode() + b" "


def _integer(value: int) -> bytes:
    return struct.pack("<bi", 4, value)


def _unsigned(value: int) -> bytes:
    return struct.pack("<bI", -4, value)  # the minus says unsigned


def _integers(values: list[int]) -> bytes:
    return struct.pack(f"<bi{len(values)}i", 4, len(values), *values)
