"""Docstrings as the API page shows them."""

from __future__ import annotations

import doctest
import re
from typing import Any

import griffe


class ReadableDocstrings(griffe.Extension):
    """Rewrites what griffe collects: doctests become code blocks, parameters keep their types and defaults."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = name_choices(list_arguments(fence_examples(obj.docstring.value)))


def fence_examples(text: str) -> str:
    r"""The text with its doctests fenced, since Markdown reads ">>>" as a quotation.

    Those under an "Examples" heading are left to griffe.

    >>> fence_examples("A sum.\n\n>>> 1 + 1\n2")
    'A sum.\n\n```pycon\n>>> 1 + 1\n2\n```'
    """
    if "Examples\n---" in text:
        return text
    parts = doctest.DocTestParser().parse(text)
    out = [part if isinstance(part, str) else f"```pycon\n{_source(part)}{part.want}```\n" for part in parts]
    return "".join(out).replace("```\n```pycon\n", "").strip("\n")


def list_arguments(text: str) -> str:
    r"""The text with a section "Args:", which the command line reads, as a section "Parameters".

    >>> print(list_arguments("A sum.\n\nArgs:\n    a: A number,\n        or two.\n    b: Another.\n\nO(1)."))
    A sum.
    <BLANKLINE>
    O(1).
    <BLANKLINE>
    Parameters
    ----------
    a
        A number,
        or two.
    b
        Another.
    """
    section = re.search(r"(?m)^Args:\n((?: {4}.*\n?)+)\n*", text)
    if not section:
        return text
    arguments = re.sub(r"(?m)^ {4}(\w+(?:, \w+)*): ", r"\1\n    ", section[1]).rstrip()
    arguments = re.sub(r"(?m)^ {8}", "    ", arguments)
    rest = f"{text[: section.start()].rstrip()}\n\n{text[section.end() :].strip()}".strip()
    return f"{rest}\n\nParameters\n----------\n{arguments}"


def name_choices(text: str) -> str:
    """Types of parameters with a default as alternatives joined by "or".

    griffe takes the first of several choices in braces for the default, and a list of types for a tuple.

    >>> name_choices('order : {0, 1, 2} or None, default=1')
    'order : 0 or 1 or 2 or None, default=1'
    >>> name_choices('width : float, "median" or tuple (a, b), default=None')
    'width : float or "median" or tuple (a, b), default=None'
    """
    return re.sub(r"(?m)^(\w+ : )(.+)(?=, default=)", lambda match: match[1] + _alternatives(match[2]), text)


def _alternatives(types: str) -> str:
    return re.sub(r", (?![^(\[]*[)\]])", " or ", types.replace("{", "").replace("}", ""))


def _source(example: doctest.Example) -> str:
    first, *others = example.source.rstrip("\n").split("\n")
    return "\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in others)]) + "\n"
