"""Markdown sources: the length of lines, and scripts of the site."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")])
MAX_LENGTH = 120


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_lines_are_short(page: Path) -> None:
    """Rows of generated tables are exempt."""
    lines = page.read_text(encoding="utf-8").splitlines()
    is_generated = any("do not edit" in line or line.endswith(": begin -->") for line in lines)
    too_long = [
        number
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_LENGTH and not (is_generated and line.startswith("|"))
    ]
    assert not too_long, f"lines {too_long} of {page} have more than {MAX_LENGTH} characters"


def test_scripts_of_the_site_are_its_own() -> None:
    """The offline plugin would load its worker from the network, and without one search from disk is hidden."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (script,) = re.findall(r"polyfills:\n    - (\S*iframe-worker\S*)", settings)
    assert (ROOT / "docs" / script).is_file()


def test_the_page_of_examples_includes_every_script() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    included = re.findall(r"(?m)^\[\w+\.py\]\(\.\./examples/(\w+\.py)\)$", page)
    assert sorted(included) == sorted(path.name for path in ROOT.glob("examples/*.py"))


def test_the_page_of_changes_includes_the_changelog() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    assert page.endswith("\n[CHANGELOG.md](../CHANGELOG.md)\n")
