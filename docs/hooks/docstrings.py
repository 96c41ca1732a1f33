"""Docstrings as the API page shows them."""

from __future__ import annotations

import doctest
import re
from typing import Any

import griffe


class ReadableDocstrings(griffe.Extension):
    """Rewrites what griffe collects: doctests become code blocks, choices keep their default."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = name_choices(fence_examples(obj.docstring.value))


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


def name_choices(text: str) -> str:
    """Choices in braces without the braces: griffe takes the first of them for the default.

    >>> name_choices("order : {0, 1, 2}, default=1")
    'order : 0 or 1 or 2, default=1'
    """
    return re.sub(r"(?m)^(\w+ : )\{(.*?)\}(?=, default=)", lambda m: m[1] + m[2].replace(", ", " or "), text)


def _source(example: doctest.Example) -> str:
    first, *others = example.source.rstrip("\n").split("\n")
    return "\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in others)]) + "\n"
