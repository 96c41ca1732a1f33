"""Doctests in docstrings as code blocks: Markdown would read ">>>" as a quotation."""

from __future__ import annotations

import doctest
from typing import Any

import griffe


class FenceExamples(griffe.Extension):
    """Puts a fence around every run of examples in the docstrings that griffe collects."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fence_examples(obj.docstring.value)


def fence_examples(text: str) -> str:
    r"""The text with its doctests fenced; those under an "Examples" heading are left to griffe.

    >>> print(fence_examples("A sum.\n\n>>> 1 + 1\n2"))
    A sum.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    if "Examples\n---" in text:
        return text
    out: list[str] = []
    for part in doctest.DocTestParser().parse(text):
        if isinstance(part, str):
            out.append(part)
        else:
            out.append(f"```pycon\n{_source(part)}{part.want}```\n")
    return "".join(out).replace("```\n```pycon\n", "").strip("\n")


def _source(example: doctest.Example) -> str:
    first, *others = example.source.rstrip("\n").split("\n")
    return "\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in others)]) + "\n"
