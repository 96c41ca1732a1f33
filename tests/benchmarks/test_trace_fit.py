"""One fit enters few files and functions, so that a reader can follow it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.trace_fit import LIMITS, Trace, trace_fit
from bochner.search.automatic import PRESETS


def assert_within_limits(trace: Trace, name: str) -> None:
    assert trace.num_files <= LIMITS[name].files, sorted(trace.functions)
    assert trace.num_functions <= LIMITS[name].functions, dict(trace.functions)


def test_a_fit_without_a_search_can_be_read() -> None:
    limit = LIMITS["preset=None"]
    assert_within_limits(trace_fit(limit.rows, **limit.arguments), "preset=None")


def test_a_fit_with_a_search_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a tenth of the rows at every stage, all of which are entered."""
    few = replace(
        PRESETS["default"], first_rows=70, middle_rows=200, last_rows=300, final_rows=600, holdout_rows=400
    )  # fmt: skip
    monkeypatch.setitem(PRESETS, "default", few)
    trace = trace_fit(2000)
    stages = {f"_Search.{name}" for name in ("first", "middle", "metrics", "last", "final")}
    assert stages <= trace.functions["search/automatic.py"]
    assert_within_limits(trace, "defaults")
