"""A matplotlib figure as SVG that stands inside a page and takes its colours."""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

INK, PAPER = "var(--ink)", "var(--paper)"


def svg_of(figure: Any, *, number: int, label: str) -> str:
    """The `<svg>` of a `matplotlib.figure.Figure`: black becomes the page's ink, white its paper.

    `number` keeps the names inside apart from those of other drawings on the page; the same figure gives the same text.
    """
    import matplotlib

    drawn = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "page"}):
        figure.savefig(drawn, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = drawn.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>d{number}-", text)
    text = text.replace("#000000", INK).replace("#ffffff", PAPER)
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)  # the page says how wide it is
    text = _slim(text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _slim(text: str) -> str:
    """The same drawing in a third of the bytes: one font, two digits after the point, no indentation.

    >>> _slim('<text style="font-family: A, B; x" y="12.345678" transform="rotate(-0 1 2)">')
    '<text style="font-family: sans-serif; x" y="12.35">'
    """
    text = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", text)
    text = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", text)
    text = re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}" if found[0][0] != "0" else found[0], text)
    return re.sub(r"\s*\n\s*", "\n", text)
