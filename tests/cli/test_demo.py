"""The command line as a newcomer meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bochner.cli import main


def test_demo_prints_a_table_and_writes_its_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", f"--output_dir={tmp_path}", "--num_seeds=1"])
    printed = capsys.readouterr()
    assert "orthogonal" in printed.out
    assert "relative Frobenius error" in printed.out
    assert "100%" in printed.err  # the progress bar
    rows = json.loads((tmp_path / "map_error.json").read_text())
    assert all(0 < row["error"] < 1 for row in rows)
    assert (tmp_path / "map_error.png").stat().st_size > 10_000
