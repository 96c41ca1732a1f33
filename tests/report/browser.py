"""A headless browser that shows pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PHONE = {"width": 360, "height": 740}
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def opened(path: Path, *, dark: bool = False, width: int = PHONE["width"]) -> Iterator[tuple[Any, list[str]]]:
    """A page in the browser, and its problems: errors, and any request to the network."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium found: apt install chromium")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={**PHONE, "width": width}, color_scheme="dark" if dark else "light")
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: complaints.append(request.url) if not local(request.url) else None)
        page.goto(path.as_uri())
        yield page, complaints
        browser.close()


def local(address: str) -> bool:
    return address.startswith(("file:", "data:"))
