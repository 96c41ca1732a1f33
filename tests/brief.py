"""The search of KernelClassifier() in a tenth of its time, for tests of the steps before and after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bochner.search.automatic import PRESETS


@pytest.fixture(autouse=True)
def brief_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two transformations, two kernels, three folds and one round of a metric; its stages and rows are the same."""
    few = replace(
        PRESETS["default"],
        transforms=("standard", "normal"),
        kernels=((1.0, 1.0), (2.0, 2.0)),
        max_folds=3,
        num_middle=2,
        num_last=1,
        max_rounds=1,
    )
    monkeypatch.setitem(PRESETS, "default", few)
