"""Every reader on some dozens of damaged files; `python -m tests.fuzz` tries thousands."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.fuzz.attempt import attempt, attempts
from tests.fuzz.readers import READERS

EXAMPLES = 60


@pytest.mark.parametrize("name", READERS)
def test_a_good_file_is_read(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    path = reader.make(tmp_path)
    assert attempt(reader, path, path.read_bytes()) == "read"


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_read_or_refused_by_name(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = attempts(READERS[name], Path(folder), count=EXAMPLES)
    assert found["refused"] > 0
