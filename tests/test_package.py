"""The wheel and the source distribution: what is in them, and that the wheel works where it is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

import bochner

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
SUFFIXES = {".py", ".typed", ".yaml", ".csv", ".npz", ".json", ".safetensors", ".txt", ".xz"}  # code, recipes, data


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="building the package needs hatchling")
    directory = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return directory


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def package_files() -> set[str]:
    paths = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE).as_posix() for path in paths}


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name for name in names if name.startswith("bochner/")}
    assert package == package_files()
    assert {Path(name).suffix for name in package} <= SUFFIXES
    info = f"bochner-{bochner.__version__}.dist-info"
    assert names - package == {
        f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }


def test_the_version_is_that_of_the_changelog_and_of_the_citation(wheel: Path) -> None:
    metadata = message_from_bytes(
        zipfile.ZipFile(wheel).read(f"bochner-{bochner.__version__}.dist-info/METADATA"),
    )
    assert metadata["Version"] == bochner.__version__
    assert f"\n## {bochner.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {bochner.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_source_distribution_has_what_tests_and_docs_need(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    top = f"bochner-{bochner.__version__}"
    with tarfile.open(path) as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert {f"src/{name}" for name in package_files()} <= names
    expected = {
        "README.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
        "mkdocs.yml",
        "docs/index.md",
        "tests/conftest.py",
    }
    assert expected <= names
    assert {name.partition("/")[0] for name in names} <= {
        "src", "tests", "benchmarks", "examples", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RESULTS.md",
        "CITATION.cff", "LICENSE", "Makefile", "constraints.txt", "mkdocs.yml", "pyproject.toml", "PKG-INFO",
        ".gitignore",
    }  # fmt: skip


def test_the_installed_wheel_imports_and_reads_its_data(wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    program = (
        "import bochner; from bochner.acoustic.recipe import load_recipe; "
        "from bochner.studies.published_tables import published_table; "
        "assert load_recipe('timit-demo') and published_table('adapted_bases'); print(bochner.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)
