"""Every script in examples/ runs as a user would run it, at a small size, and does what it says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Options that make a script small, and what its output must show.
SMALL = {
    "adapted_basis.py": (["--n_components", "16"], r"random +test accuracy 0\.[5-7](.*\n)*loss +test accuracy 0\.[89]"),
    "first_classifier.py": (
        ["--model", "digits.safetensors", "--preset", "fast"],
        r"search: (.*\n)*test accuracy 0\.9[6-9]\d+ of the model in",
    ),
    "million_rows.py": (["--rows", "20000"], r"solver sgd, test accuracy 0\.[89]"),
}


def test_every_example_is_here() -> None:
    assert sorted(SMALL) == sorted(path.name for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_runs(name: str, tmp_path: Path) -> None:
    options, shown = SMALL[name]
    command = [sys.executable, str(EXAMPLES / name), *options]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.search(shown, done.stdout), done.stdout
