"""Searches and adapted bases take a few steps only: the data sets of these tests are small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bochner.search import kernel
from tests.brief import brief_search

__all__ = ["brief_search"]


@pytest.fixture(autouse=True)
def short_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "BASIS", replace(kernel.BASIS, batches=8, validation_batches=4, max_epochs=2))
