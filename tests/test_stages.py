"""Stages: computed once, resumed, locked, and refused if their inputs have changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bochner.stages import Stage, locked
from tests.processes import run_code


def test_a_finished_stage_is_not_computed_again(tmp_path: Path) -> None:
    calls = []
    for _ in range(2):
        result = Stage(tmp_path / "stage.json", {"seed": 0}).run(lambda: calls.append(1) or {"rows": (1, 2)})
    assert calls == [1]
    assert result["rows"] == [1, 2]


def test_a_stage_that_failed_runs_again_with_the_same_inputs_only(tmp_path: Path) -> None:
    def fail() -> dict[str, object]:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        Stage(tmp_path / "stage.json", {"seed": 0}).run(fail)
    with pytest.raises(ValueError, match=r"seed: 0 there, 1 here"):
        Stage(tmp_path / "stage.json", {"seed": 1}).run(dict)
    assert Stage(tmp_path / "stage.json", {"seed": 0}).run(lambda: {"done": True})["done"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"inputs": 1, "result": null}', b"\xff", b"[" * 100_000])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "stage.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"stage\.json"):
        Stage(tmp_path / "stage.json", {}).result()


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from bochner.stages import locked\nwith locked(Path(sys.argv[1])): pass"
    )
    with locked(tmp_path):
        other = run_code(script, tmp_path)
    assert other.returncode != 0
    assert str(tmp_path) in other.stderr
    assert run_code(script, tmp_path).returncode == 0
