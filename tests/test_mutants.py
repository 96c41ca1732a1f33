"""Mutants are valid Python that differs, and their tests exist; constraints of the matrix are valid."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from coverage import CoverageData
from packaging.requirements import Requirement

from tests.matrix import lowest_versions
from tests.mutants import ROOT, Mutant, covering_tests, mirrored_tests, mutants_of


@pytest.mark.parametrize("path", ["src/bochner/storage.py", "src/bochner/solvers/newton.py"])
def test_mutants_are_other_programs(path: str) -> None:
    content = (ROOT / path).read_bytes()
    original = ast.unparse(ast.parse(content))
    mutants = list(mutants_of(Path(path), random.Random(0)))
    assert len(mutants) > 30
    for mutant in mutants:
        assert content[mutant.start : mutant.end].decode() == mutant.before
        changed = content[: mutant.start] + mutant.text.encode() + content[mutant.end :]
        assert ast.unparse(ast.parse(changed)) != original, mutant


def test_tests_of_a_module() -> None:
    names, package = mirrored_tests(Path("src/bochner/storage.py"))
    assert "tests/test_storage.py" in names
    assert package is None
    landmarks, package = mirrored_tests(Path("src/bochner/solvers/landmarks.py"))
    assert package == "tests/solvers"
    assert landmarks[0].startswith("tests/solvers/test_landmark")
    assert "src/bochner/solvers/landmarks.py" in landmarks


def test_a_fixture_may_serve_all_tests_of_its_file(tmp_path: Path) -> None:
    path = "src/bochner/storage.py"
    data = CoverageData(str(tmp_path / "data"))
    for context, line in {"": 1, "tests/test_a.py::test_one|setup": 2, "tests/test_b.py::test_two|run": 3}.items():
        data.set_context(context)
        data.add_lines({path: [line]})
    mutant = Mutant(Path(path), 2, 0, 1, "", "", range(2, 4))
    assert covering_tests(data, mutant) == (
        {"tests/test_a.py::test_one", "tests/test_b.py::test_two"},
        ["tests/test_a.py"],
    )
    assert covering_tests(data, mutant._replace(lines=range(1, 2))) == (set(), [])


def test_lowest_versions_are_exact() -> None:
    versions = [Requirement(line) for line in lowest_versions().splitlines()]
    assert {"torch", "numpy", "pytest"} <= {version.name for version in versions}
    assert all(str(version.specifier).startswith("==") for version in versions)
