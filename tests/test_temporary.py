"""Temporary directories: removed with the process, or at the next start if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bochner.temporary import LOCK_NAME, PREFIX, TemporaryDirectory, remove_abandoned

LEFT = """
import os, signal, sys
from bochner.temporary import TemporaryDirectory
directory = TemporaryDirectory()
print(directory.path, flush=True)
sys.stdin.read()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_those_of_killed_processes_are_removed_and_no_others(tmp_path: Path) -> None:
    own, foreign = TemporaryDirectory(), tmp_path / f"{PREFIX}without-lock"
    foreign.mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", LEFT], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        other = Path(process.stdout.readline().strip())
        remove_abandoned()
        assert other.exists()
        process.communicate("")
    assert process.returncode == -signal.SIGKILL
    assert other.exists()
    TemporaryDirectory().remove()
    assert not other.exists()
    assert own.path.exists()
    assert foreign.exists()
    own.remove()
    assert not own.path.exists()


def test_removed_with_the_object(tmp_path: Path) -> None:
    directory = TemporaryDirectory()
    assert (directory.path / LOCK_NAME).exists()
    del directory
    assert not list(tmp_path.iterdir())
