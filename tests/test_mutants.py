"""Mutants are valid Python that differs, and their tests exist; constraints of the matrix are valid."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.matrix import lowest_versions
from tests.mutants import ROOT, mirrored_tests, mutants_of


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


def test_lowest_versions_are_exact() -> None:
    versions = [Requirement(line) for line in lowest_versions().splitlines()]
    assert {"torch", "numpy", "pytest"} <= {version.name for version in versions}
    assert all(str(version.specifier).startswith("==") for version in versions)
