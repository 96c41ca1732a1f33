"""What stands in a table: text, numbers, marks, links."""

from __future__ import annotations

import math
from html import escape
from typing import Literal, NamedTuple

MISSING = "-"


class Mark(NamedTuple):
    """Text with a colour that says whether it is good; the words alone must say it too."""

    text: str
    tone: Literal["good", "bad", "open"]


class Link(NamedTuple):
    """Text that leads to a heading of the same page."""

    text: str
    heading: str


Cell = str | float | Mark | Link | None


def shown(value: float | None, digits: int = 3) -> str:
    """A number with few digits, and without an exponent where that is short.

    >>> shown(28780.4), shown(1.6658), shown(1.28e-6), shown(5), shown(None)
    ('28,780', '1.67', '1.28e-06', '5', '-')
    """
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def text_of(cell: Cell) -> str:
    """A cell as plain text."""
    match cell:
        case Mark(text=text) | Link(text=text) | str(text):
            return text
        case _:
            return shown(cell)


def html_of(cell: Cell) -> str:
    """A cell as HTML, with everything escaped.

    >>> html_of("a < b"), html_of(Mark("no", "bad"))
    ('a &lt; b', '<span class="bad">no</span>')
    """
    text = escape(text_of(cell))
    match cell:
        case Mark(tone=tone):
            return f'<span class="{tone}">{text}</span>'
        case Link(heading=heading):
            return f'<a href="#{anchor(heading)}">{text}</a>'
        case _:
            return text


def is_number(cell: Cell) -> bool:
    return cell is None or isinstance(cell, int | float)


def anchor(heading: str) -> str:
    """The name of a heading in addresses.

    >>> anchor("Kernel error, by D")
    'kernel-error-by-d'
    """
    words = "".join(letter if letter.isalnum() else " " for letter in heading.lower()).split()
    return "-".join(words)
