"""Reports: HTML pages in one self-contained file, and Markdown tables."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #5b6470; --line: #d5dae0;
  --good: #0b6b3a; --bad: #b3261e; --link: #0b57d0; --shade: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --paper: #14171a; --faint: #a0a9b4; --line: #3a424b;
  --good: #6fd39a; --bad: #ff8a80; --link: #8ab4f8; --shade: #1d2126; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 72rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; } h3 { font-size: 1.05rem; }
a { color: var(--link); } p { max-width: 46rem; }
summary { cursor: pointer; } nav ul { columns: 18rem; padding-left: 1.2rem; }
.note, figcaption { color: var(--faint); font-size: 0.875rem; }
pre { background: var(--shade); padding: 0.6rem; overflow-x: auto; font-size: 0.875rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9rem; }
th, td { border-bottom: 1px solid var(--line); padding: 0.3rem 0.6rem; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: var(--paper); } .number { text-align: right; white-space: nowrap; }
abbr { text-decoration: underline dotted; cursor: help; } dt { font-weight: 600; } dd { margin: 0 0 0.5rem 1rem; }
td.long { min-width: 15rem; } td { min-width: 4rem; font-variant-numeric: tabular-nums; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.open { color: var(--faint); font-style: italic; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
.facts { display: grid; grid-template-columns: max-content 1fr; gap: 0.3rem 1.2rem; font-size: 0.9rem; }
.facts dt { font-weight: 400; color: var(--faint); } .facts dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0.5rem 0; max-width: 100%; } figure svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--ink); }
@media (max-width: 40rem) { th, td { padding: 0.3rem; } td { min-width: 0; } th.number { white-space: normal; }
  .facts { display: block; } .facts dd { margin-bottom: 0.5rem; }
  .cards thead { display: none; }
  .cards, .cards tbody, .cards tr, .cards td { display: block; }
  .cards tr { border-bottom: 1px solid var(--line); padding: 0.6rem 0; }
  .cards td { border: 0; padding: 0.1rem 0; min-width: 0; text-align: left; }
  .cards td::before { content: attr(data-column) ": "; color: var(--faint); } }
"""
MISSING = "-"  # shown for None and NaN
NUMBER = re.compile(r"[-+]?[\d.,]+(e[-+]?\d+)?( ?%)?( (±|to) [-+]?[\d.,]+(e[-+]?\d+)?( ?%)?)?")
# Terms that tables of results use; a page explains those that it shows.
TERMS = {
    "R2": "Share of the variance of the target that the model explains; 1 is perfect, 0 is the mean of the target.",
    "RMSE": "Root of the mean squared error, in units of the target.",
    "mean absolute error": "Mean of |target - prediction|, in units of the target.",
    "accuracy": "Share of the rows whose class is predicted.",
    "balanced accuracy": "Mean over the classes of the share of their rows whose class is predicted.",
    "log loss": "Mean of -log p(true class), in nats; 0 is perfect.",
    "ROC AUC": "Probability that a row of the second class gets a higher score than one of the first; 0.5 is chance.",
    "average precision": "Mean precision over all thresholds, weighted by the gain in recall.",
    "CE": "Cross-entropy: mean of -log p(state | frame) on heldout frames, in nats.",
    "perplexity": "exp(CE).",
    "ENT": "Mean entropy of the posteriors of heldout frames, in nats.",
    "ERLL": "Entropy-regularised log loss: CE + ENT.",
    "ERR %": "Per cent of the heldout frames whose most probable state is wrong.",
    "PER": "Phone error rate: substitutions, deletions and insertions per phone of the reference.",
    "WER": "Word error rate: substitutions, deletions and insertions per word of the reference.",
    "CER": "Character error rate: substitutions, deletions and insertions per character of the reference.",
    "GMM": "Gaussian mixture model, whose alignment the other models are trained on.",
    "MMI": "Maximum mutual information: training on whole utterances.",
    "transformation": "Of the inputs: standardised, normal scores, both side by side, or a robust scale.",
    "learned metric": "Weights of the columns (diagonal) or a matrix (full) in the distance, learned in rounds.",
    "bandwidth / median": "The bandwidth of the kernel, divided by the median distance between rows.",
    "ridge penalty": "Added to the diagonal of the kernel matrix; more makes the predictions smoother.",
    "loss ± standard error": "On validation rows: the mean squared error unless scoring is set; lower is better.",
    "RFF": "Random Fourier features.",
    "UAB": "Unsupervised adapted basis: features optimised to approximate the kernel.",
    "SAB": "Supervised adapted basis: features optimised for alignment with the classes.",
    "DAB": "Discriminatively adapted basis: features optimised for the loss of a linear model.",
}
PIXELS_PER_INCH = 96  # by definition of CSS
LONG_CELL = 40  # characters from which a cell gets a minimal width


def svg_of(figure: Any, *, number: int, label: str) -> str:
    """The `<svg>` of a `matplotlib.figure.Figure`, with black and white replaced by the page's colours.

    `number` distinguishes the ids of the figures on a page. The same figure gives the same text.
    """
    import matplotlib

    svg = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "page"}):
        figure.savefig(svg, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = svg.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>d{number}-", text)
    text = text.replace("#000000", "var(--ink)").replace("#ffffff", "var(--paper)")
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)  # the page sets the width
    text = _slim(text)
    return text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)


def _slim(text: str) -> str:
    """The same figure in a third of the bytes: one font, two decimals, no indentation.

    >>> _slim('<text style="font-family: A, B; x" y="12.345678" transform="rotate(-0 1 2)">')
    '<text style="font-family: sans-serif; x" y="12.35">'
    """
    text = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", text)
    text = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", text)
    text = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}" if m[0][0] != "0" else m[0], text)
    return re.sub(r"\s*\n\s*", "\n", text)


class Mark(NamedTuple):
    """Text in the colour of a good, bad or open result; the text alone must be clear as well."""

    text: str
    tone: Literal["good", "bad", "open"]


class Link(NamedTuple):
    """Text that links to a heading of the same page."""

    text: str
    heading: str


Cell = str | float | Mark | Link | None


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with few digits, without an exponent where that is short.

    >>> format_number(28780.4), format_number(1.6658), format_number(1.28e-6), format_number(5), format_number(None)
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
            return format_number(cell)


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


def anchor(heading: str) -> str:
    """The id of a heading.

    >>> anchor("Kernel error, by D")
    'kernel-error-by-d'
    """
    words = "".join(letter if letter.isalnum() else " " for letter in heading.lower()).split()
    return "-".join(words)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Lines of a Markdown table; a bar within a cell is escaped.

    >>> print(markdown_table(["map", "error"], [["|z|", 0.12345]]))
    | map | error |
    | --- | --- |
    | \\|z\\| | 0.123 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(text_of(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def insert_section(page: str, section: str, *, name: str, path: Path | None = None) -> str:
    """A Markdown page with the section between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`.

    Headings of the section become one level lower. The path is that of the page, for the error without these lines.

    >>> print(insert_section("# Page\\n<!-- a: begin -->\\nold\\n<!-- a: end -->\\nend", "# New", name="a"))
    # Page
    <!-- a: begin -->
    ## New
    <!-- a: end -->
    end
    """
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    before, begin_line, rest = page.partition(begin)
    _, end_line, after = rest.partition(end)
    if not begin_line or not end_line:
        raise ValueError(f"{path or 'the page'} must contain the lines {begin.strip()!r} and {end!r}.")
    lowered = re.sub(r"(?m)^(#{1,5} )", r"#\1", section.strip("\n"))
    return f"{before}{begin}{lowered}\n{end}{after}"


def write_page_or_section(path: Path, text: str, *, name: str) -> None:
    """Write the text into its section of an existing page that has one (`insert_section`), or as a page of its own."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    has_section = f"<!-- {name}: begin -->" in page
    path.write_text(insert_section(page, text, name=name) if has_section else text, encoding="utf-8")


def term_in(text: str) -> str | None:
    """The term of `TERMS` that a header or a name of a row is about: the text itself, or one of its words.

    >>> term_in("ERLL"), term_in("PER test %"), term_in("best kernel")
    ('ERLL', 'PER', None)
    """
    stripped = text.strip()
    return stripped if stripped in TERMS else next((word for word in stripped.split() if word in TERMS), None)


class Page:
    """Headings, text, tables and figures, in the order in which they are added; all text is escaped.

    What is added before the first heading comes first, and the contents after it.

    >>> page = Page("Maps").heading("Errors").text("D < 100").table(["map", "error"], [["fourier", 0.25]])
    >>> page.write(Path("maps.html"))  # doctest: +SKIP
    >>> "D &lt; 100" in page.html(), "fourier" in page.html()
    (True, True)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self._parts: list[str] = []
        self._headings: list[str] = []
        self._num_lead = 0  # parts before the first heading
        self._num_figures = 0
        self._terms: set[str] = set()

    def heading(self, text: str) -> Self:
        """A section, listed at the top of the page; `Link(…, heading=text)` links to it."""
        if text in self._headings:
            raise ValueError(f"text must be a heading that the page does not have yet, got {text!r} again.")
        if not self._headings:
            self._num_lead = len(self._parts)
        self._headings.append(text)
        return self._add(f'<h2 id="{anchor(text)}">{escape(text)}</h2>')

    def subheading(self, text: str) -> Self:
        return self._add(f"<h3>{escape(text)}</h3>")

    def text(self, paragraph: str) -> Self:
        return self._add(f"<p>{escape(paragraph)}</p>")

    def note(self, paragraph: str) -> Self:
        """A note in small type, such as the protocol of the numbers above."""
        return self._add(f'<p class="note">{escape(paragraph)}</p>')

    def items(self, sentences: Iterable[str]) -> Self:
        """A list of sentences."""
        return self._add(f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>")

    def link(self, text: str, href: str) -> Self:
        """A line that links to another page.

        >>> '<a href="speech/report.html">Speech</a>' in Page("Demo").link("Speech", "speech/report.html").html()
        True
        """
        return self._add(f'<p><a href="{escape(href)}">{escape(text)}</a></p>')

    def code(self, text: str) -> Self:
        """Preformatted text, such as a command or a file."""
        return self._add(f"<pre><code>{escape(text)}</code></pre>")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]], *, cards: bool = False) -> Self:
        """A table; numbers get three digits and None a dash, so pass text where that is too few.

        Numbers, also as text such as "0.12 ± 0.01", are aligned to the right, and `TERMS` in headers and in the first
        column are explained. On a narrow screen rows become cards with `cards`, else the table scrolls sideways.
        """
        lines = [list(row) for row in rows]
        numeric = [any(_is_number(line[place]) for line in lines) for place in range(len(columns))]
        head = "".join(
            f'<th class="{"number" if is_numeric else "short"}">{self._named(name)}</th>'
            for name, is_numeric in zip(columns, numeric, strict=True)
        )
        body = "\n".join(
            f"<tr>{''.join(map(self._cell, line, columns, range(len(line)), numeric))}</tr>" for line in lines
        )
        kind = ' class="cards"' if cards else ""
        return self._add(
            f'<div class="wide"><table{kind}><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
        )

    def facts(self, pairs: Iterable[tuple[str, str]]) -> Self:
        """Names with their values, which wrap on a narrow screen."""
        entries = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
        return self._add(f'<dl class="facts">{entries}</dl>')

    def figure(self, figure: Any, caption: str) -> Self:
        """A `matplotlib.figure.Figure`; up to about 5 inches of width are readable on a phone."""
        return self.figures([(figure, caption)])

    def figures(self, figures: Iterable[tuple[Any, str]]) -> Self:
        """Figures with their captions, side by side if they fit."""
        return self._add(f'<div class="figures">{"".join(self._figure(*pair) for pair in figures)}</div>')

    def html(self) -> str:
        title = escape(self.title)
        contents = "".join(f'<li><a href="#{anchor(text)}">{escape(text)}</a></li>' for text in self._headings)
        head = (
            f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<link rel="icon" href="data:,"><title>{title}</title><style>{STYLE}</style>'
        )
        nav = f"<nav><details open><summary>Contents</summary><ul>{contents}</ul></details></nav>" if contents else ""
        lead, rest = self._parts[: self._num_lead], self._parts[self._num_lead :]
        body = "\n".join([*lead, nav, *rest, self._legend()])
        return (
            f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
            f"<body><h1>{title}</h1>\n<main>{body}</main></body></html>\n"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")

    def _add(self, part: str) -> Self:
        self._parts.append(part)
        return self

    def _named(self, text: str) -> str:
        """The text as HTML, with the explanation of a term in it."""
        term = term_in(text)
        if term is None:
            return escape(text)
        self._terms.add(term)
        return f'<abbr title="{escape(TERMS[term])}">{escape(text)}</abbr>'

    def _cell(self, cell: Cell, column: str, place: int, numeric: bool) -> str:
        is_number = _is_number(cell) or (numeric and text_of(cell) == MISSING)
        kind = "number" if is_number else "long" if len(text_of(cell)) > LONG_CELL else "short"
        content = self._named(cell) if place == 0 and isinstance(cell, str) else html_of(cell)
        return f'<td class="{kind}" data-column="{escape(column)}">{content}</td>'

    def _legend(self) -> str:
        """The terms of the page with their explanations, for readers who cannot hover."""
        if not self._terms:
            return ""
        entries = "".join(
            f"<dt>{escape(term)}</dt><dd>{escape(text)}</dd>" for term, text in TERMS.items() if term in self._terms
        )
        return f"<details><summary>Terms</summary><dl>{entries}</dl></details>"

    def _figure(self, figure: Any, caption: str) -> str:
        self._num_figures += 1
        svg = svg_of(figure, number=self._num_figures, label=caption)
        width = figure.get_figwidth() * PIXELS_PER_INCH
        return f'<figure style="width: {width:.0f}px">{svg}<figcaption>{escape(caption)}</figcaption></figure>'


def _is_number(cell: Cell) -> bool:
    """Whether a cell is a number, also as text.

    >>> _is_number(1.5), _is_number("19.1 ± 0.2"), _is_number("0.4 to 0.6"), _is_number("5 %"), _is_number("p=2")
    (True, True, True, True, False)
    """
    return cell is None or isinstance(cell, int | float) or bool(NUMBER.fullmatch(text_of(cell)))
