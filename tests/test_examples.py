"""Every script in examples/ runs as a user would run it, at a small size, with the expected output."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_apart

EXAMPLES = Path(__file__).parents[1] / "examples"
NEEDS = {"align_recordings.py": "kaldi_hmm_gmm", "categories.py": "pandas"}  # optional packages
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]

# What the output of each script must show.
SHOWN = {
    "adapted_basis.py": r"random +test accuracy 0\.[5-7](.*\n)*loss +test accuracy 0\.[89]",
    "align_recordings.py": r"from 0\.(19|2\d?) s for 0\.3\d s",  # the first word begins at 0.2 s and lasts 0.3 s
    "categories.py": r"R2 on 150 test rows: 0\.9\d+\n90 % intervals hold (7[5-9]|8\d|9\d|100)%",
    "custom_kernel.py": r"features: 0\.0\d+\nRationalQuadratic\(bandwidth=34\..*, test accuracy 0\.9",
    "distributed_training.py": r"2 processes, training accuracy 0\.[89]",
    "feature_selection.py": r"=None: test accuracy 0\.[67]\d+\nselection=10: test accuracy 0\.[89](.*\n).*: \[0, 1\]",
    "first_classifier.py": r"search: (.*\n)*test accuracy 0\.9[6-9]",
    "gpu_training.py": r"3 epochs of [\d,]+ rows(.*\n)test accuracy 0\.[89]",
    "million_rows.py": r"solver sgd, test accuracy 0\.[89]",
}


def test_every_example_is_here() -> None:
    assert sorted(SHOWN) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_is_a_notebook_in_percent_format(name: str) -> None:
    cells = re.findall(r"^# %%.*", (EXAMPLES / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert cells[0] == "# %% [markdown]"
    assert "# %%" in cells


def printed(name: str, directory: Path) -> str:
    """What a script prints when it is run in `directory`."""
    os.chdir(directory)
    os.environ["ROWS"] = "20000"
    with contextlib.redirect_stdout(io.StringIO()) as output:
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return output.getvalue()


def printed_by_two(name: str, directory: Path) -> str:
    """What a script prints under torchrun, in two processes."""
    done = subprocess.run(
        [sys.executable, *TORCHRUN, str(EXAMPLES / name)], cwd=directory, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_runs(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    is_distributed = name == "distributed_training.py"
    output = printed_by_two(name, tmp_path) if is_distributed else run_apart(printed, name, tmp_path)
    assert re.search(SHOWN[name], output), output
    assert not any(tmp_path.iterdir())
