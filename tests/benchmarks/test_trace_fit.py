"""One fit enters few files and functions, so that a reader can follow it."""

from __future__ import annotations

import pytest

from benchmarks.trace_fit import LIMITS, trace_fit


@pytest.mark.parametrize("name", LIMITS)
def test_a_fit_can_be_read(name: str) -> None:
    limits = LIMITS[name]
    trace = trace_fit(limits.rows, **limits.arguments)
    assert trace.num_files <= limits.files, sorted(trace.functions)
    assert trace.num_functions <= limits.functions, dict(trace.functions)
