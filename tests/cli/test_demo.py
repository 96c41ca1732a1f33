"""The command line as a newcomer meets it."""

from __future__ import annotations

import json
import subprocess
import sys
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


def test_help_teaches() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "bochner", "demo", "--help"], capture_output=True, text=True, check=True
    )
    assert "Folder for map_error.png" in result.stdout
    assert "default: 3" in result.stdout


def test_no_seeds_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_seeds must be an integer of at least 1, got 0"):
        main(["demo", f"--output_dir={tmp_path}", "--num_seeds=0"])
