"""Pages: self-contained, escaped, and readable on a phone, in light and dark mode."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from bochner.report import Link, Mark, Page
from tests.report.browser import opened

NASTY = '<script>alert("x")</script> & "quotes"'


def drawing(title: str = "a < b") -> Figure:
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axis = figure.subplots()
    axis.plot([1, 10, 100], [3, 2, 1], marker="o", label="rff & more")
    axis.set(title=title, xscale="log")
    axis.legend()
    return figure


def example() -> Page:
    page = Page(f"Title {NASTY}").heading(f"First {NASTY}").text(NASTY).note(NASTY).code(NASTY)
    page.table(["column", NASTY], [[NASTY, 1.5], [Mark(NASTY, "good"), Link("up", f"First {NASTY}")], [None, 2]])
    page.facts([(NASTY, NASTY), ("SHA-256", "0123456789abcdef" * 4)])
    return page.heading("Figures").figures([(drawing(), NASTY), (drawing(NASTY), "second")])


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value for name, value in attributes if name == "id" and value]
        self.links += [value for name, value in attributes if name.endswith("href") and value]


def test_everything_is_escaped() -> None:
    assert "script" not in Elements(example().html()).tags


def test_figures_have_the_width_of_their_drawing() -> None:
    assert example().html().count('<figure style="width: 480px">') == 2  # 5 inches of 96 pixels


def test_names_in_the_page_are_unique_and_links_lead_to_them() -> None:
    found = Elements(example().html())
    assert len(found.ids) == len(set(found.ids)) > 20
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert all(link.startswith(("#", "data:")) for link in found.links)


def test_numbers_are_aligned_to_the_right_and_terms_are_explained() -> None:
    html = Page("Scores").table(["score", "PER test %"], [["ERLL", "19.1 ± 0.2"], ["model", "rff"]]).html()
    assert '<th class="number"><abbr title="Phone error rate' in html
    assert '<td class="number" data-column="PER test %">19.1 ± 0.2</td>' in html
    assert '<td class="short" data-column="PER test %">rff</td>' in html
    assert "<dt>ERLL</dt><dd>Entropy-regularised log loss" in html


def test_the_same_page_is_the_same_text() -> None:
    assert example().html() == example().html()


def test_a_repeated_heading_is_an_error() -> None:
    with pytest.raises(ValueError, match="'Same' again"):
        Page("t").heading("Same").heading("Same")


@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_on_a_phone(tmp_path: Path, dark: bool) -> None:
    example().write(tmp_path / "page.html")
    with opened(tmp_path / "page.html", dark=dark) as (page, complaints):
        assert complaints == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        boxes = [drawn.bounding_box() for drawn in page.query_selector_all("figure > svg")]
        assert len(boxes) == 2
        assert all(box["width"] > 200 and box["height"] > 100 for box in boxes)
        colors = page.evaluate(
            "[document.body, document.querySelector('svg text')].map("
            "(e, i) => getComputedStyle(e)[i ? 'fill' : 'backgroundColor'])"
        )
        paper, ink = (sum(map(int, color[4:-1].split(","))) for color in colors)
        assert (paper < 150 and ink > 600) if dark else (paper > 600 and ink < 150)


def test_what_precedes_the_first_heading_precedes_the_contents() -> None:
    html = Page("Maps").text("The answer.").heading("Errors").text("The details.").html()
    assert html.index("The answer.") < html.index("<details open><summary>Contents") < html.index("The details.")
    assert "Contents" not in Page("Maps").text("The answer.").html()


def test_a_missing_value_is_aligned_like_the_numbers_of_its_column() -> None:
    html = Page("p").table(["model", "error", "note"], [["a", "1.5", "-"], ["b", "-", "none"]]).html()
    assert '<td class="number" data-column="error">-</td>' in html
    assert '<td class="short" data-column="note">-</td>' in html
