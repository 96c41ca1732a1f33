"""One HTML file that needs nothing beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Self

from bochner.report.cells import Cell, anchor, html_of, is_number, text_of
from bochner.report.drawing import svg_of
from bochner.report.style import STYLE

PIXELS = 96  # in an inch, by CSS
LONG = 40  # letters from which a cell is not squeezed


class Page:
    """Headings, text, tables and figures, in the order in which they are added; all text is escaped.

    >>> page = Page("Maps").heading("Errors").text("D < 100").table(["map", "error"], [["fourier", 0.25]])
    >>> page.write(Path("maps.html"))  # doctest: +SKIP
    >>> "D &lt; 100" in page.html(), "fourier" in page.html()
    (True, True)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []
        self._headings: list[str] = []
        self._num_figures = 0

    def heading(self, text: str) -> Self:
        """A section, listed at the top of the page; `Link(…, heading=text)` leads to it."""
        if text in self._headings:
            raise ValueError(f"text must be a heading that the page does not have yet, got {text!r} again.")
        self._headings.append(text)
        return self._add(f'<h2 id="{anchor(text)}">{escape(text)}</h2>')

    def subheading(self, text: str) -> Self:
        return self._add(f"<h3>{escape(text)}</h3>")

    def text(self, paragraph: str) -> Self:
        return self._add(f"<p>{escape(paragraph)}</p>")

    def note(self, paragraph: str) -> Self:
        """Small print, such as the protocol of the numbers above."""
        return self._add(f'<p class="note">{escape(paragraph)}</p>')

    def code(self, text: str) -> Self:
        """A command or a file as it is."""
        return self._add(f"<pre><code>{escape(text)}</code></pre>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, cards: bool = False) -> Self:
        """Numbers are shown with three digits, None as a dash; format them before where that is too few.

        With `cards` a phone shows each row as a card of lines, else it scrolls the table sideways.
        """
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "\n".join(f"<tr>{''.join(map(_cell, row, columns))}</tr>" for row in rows)
        kind = ' class="cards"' if cards else ""
        return self._add(
            f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
        )

    def figure(self, figure: Any, caption: str) -> Self:
        """A `matplotlib.figure.Figure`; about 5 inches wide it is still readable on a phone."""
        return self.figures([(figure, caption)])

    def figures(self, drawn: Iterable[tuple[Any, str]]) -> Self:
        """Figures with their captions, side by side where there is room."""
        return self._add(f'<div class="figures">{"".join(self._figure(*each) for each in drawn)}</div>')

    def html(self) -> str:
        title, contents = (
            escape(self.title),
            "".join(f'<li><a href="#{anchor(text)}">{escape(text)}</a></li>' for text in self._headings),
        )
        head = (
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style>'
        )
        nav = f"<nav><details><summary>Contents</summary><ul>{contents}</ul></details></nav>"
        body = "\n".join(self._parts)
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
            f"<body><h1>{title}</h1>\n{nav}\n<main>{body}</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")

    def _add(self, part: str) -> Self:
        self._parts.append(part)
        return self

    def _figure(self, figure: Any, caption: str) -> str:
        self._num_figures += 1
        drawn = svg_of(figure, number=self._num_figures, label=caption)
        width = figure.get_figwidth() * PIXELS
        return f'<figure style="width: {width:.0f}px">{drawn}<figcaption>{escape(caption)}</figcaption></figure>'


def _cell(cell: Cell, column: str) -> str:
    kind = "number" if is_number(cell) else "long" if len(text_of(cell)) > LONG else "short"
    return f'<td class="{kind}" data-column="{escape(column)}">{html_of(cell)}</td>'
