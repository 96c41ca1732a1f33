"""Results files: what is stored is read again, whatever the end of the file looks like."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from bochner.studies.results_file import ResultsFile, append_line, read_lines


@dataclass(frozen=True)
class Cell:
    name: str
    seeds: tuple[int, ...] = ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "cells.jsonl"
    results = ResultsFile(path, Cell)
    results.add(Cell("a", (1, 2)), {"value": 0.5})
    results.add(Cell("b"), {"value": [1, 2]})
    return path


def test_results_are_read_as_they_were_added(path: Path) -> None:
    results = ResultsFile(path, Cell)
    assert (results.get(Cell("a", (1, 2))), results.get(Cell("b"))) == ({"value": 0.5}, {"value": [1, 2]})
    assert results.get(Cell("c")) is None
    results.add_run({"study": "mine"})
    assert ResultsFile(path, Cell).runs() == [{"study": "mine"}]


def test_a_line_cut_at_any_byte_is_ignored_and_replaced(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    content = path.read_bytes()
    second = content.index(b"\n") + 1
    for length in range(second + 1, len(content) - 1):  # without its last byte, the newline, the line is complete
        caplog.clear()
        path.write_bytes(content[:length])
        results = ResultsFile(path, Cell)
        assert results.get(Cell("b")) is None
        assert "cells.jsonl, line 2 is incomplete" in caplog.text
        results.add(Cell("b"), {"value": [1, 2]})
        assert path.read_bytes() == content


def test_a_complete_line_without_its_newline_is_kept(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    ResultsFile(path, Cell).add(Cell("c"), {"value": 3})
    results = ResultsFile(path, Cell)
    assert [results.get(Cell(name)) for name in "bc"] == [{"value": [1, 2]}, {"value": 3}]


@pytest.mark.parametrize("line", ['{"cell"', "\0\0\0", "\udcff"])
def test_a_cut_line_before_the_end_is_ignored(path: Path, line: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = path.read_text().splitlines()
    path.write_bytes(f"{first}\n{line}\n{second}\n".encode(errors="surrogateescape"))
    results = ResultsFile(path, Cell)
    assert "cells.jsonl, line 2 is incomplete" in caplog.text
    assert (results.get(Cell("a", (1, 2))), results.get(Cell("b"))) == ({"value": 0.5}, {"value": [1, 2]})


@pytest.mark.parametrize("line", ['{"cell": {"kind": 1}, "result": {}}', '{"result": {}}', "[]"])
def test_a_line_that_is_no_cell_is_shown(path: Path, line: str) -> None:
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{line}\n{second}\n")
    with pytest.raises(ValueError, match=re.escape(f"remove the line {line}")):
        ResultsFile(path, Cell)


def test_a_file_that_does_not_exist_has_no_lines(tmp_path: Path) -> None:
    assert read_lines(tmp_path / "none.jsonl") == []
    append_line(tmp_path / "none.jsonl", {"a": 1})
    assert read_lines(tmp_path / "none.jsonl") == [{"a": 1}]
