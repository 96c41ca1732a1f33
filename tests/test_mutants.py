"""Mutants are valid Python that differs, and their tests exist; constraints of the matrix are valid."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from coverage import CoverageData
from packaging.requirements import Requirement

from tests.matrix import lowest_versions
from tests.mutants import ROOT, Copy, Mutant, covering_tests, failed_test, mirrored_tests, mutants_of


@pytest.mark.parametrize("path", ["src/bochner/storage.py", "src/bochner/search/kernel.py"])
def test_mutants_are_other_programs(path: str) -> None:
    content = (ROOT / path).read_bytes()
    original = ast.unparse(ast.parse(content))
    mutants = list(mutants_of(Path(path), random.Random(0)))
    assert len(mutants) > 30
    for mutant in mutants:
        assert content[mutant.start : mutant.end].decode() == mutant.before
        changed = content[: mutant.start] + mutant.text.encode() + content[mutant.end :]
        assert ast.unparse(ast.parse(changed)) != original, mutant
        assert not mutant.before.startswith(("logger.", "warnings."))


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


def test_a_failed_test_is_that_of_the_summary() -> None:
    log = "ERROR    torch.distributed:api.py:836 failed (exitcode: 1)\nFAILED to connect\n"
    assert failed_test(f"{log}FAILED tests/test_a.py::test_b[1-2] - AssertionError\n") == "tests/test_a.py::test_b[1-2]"
    assert failed_test(f"{log}ERROR tests/test_a.py\n1 error\n") == "tests/test_a.py"
    assert failed_test("FAILED src/a/b.py::a.b.C\n") == "src/a/b.py::a.b.C"
    assert failed_test(log) is None


def test_a_test_that_was_renamed_is_replaced_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, runs = object.__new__(Copy), []
    copied.directory = tmp_path
    (tmp_path / "a.py").write_text("1 + 2")

    def run(arguments: list[str], seconds: float) -> tuple[int, str]:
        runs.append(((tmp_path / "a.py").read_text(), arguments))
        is_renamed = any("::" in name for name in arguments) and "tests/t.py::now" not in arguments
        if is_renamed:
            return pytest.ExitCode.USAGE_ERROR, "ERROR: not found: tests/t.py::before\n"
        is_mutated = (tmp_path / "a.py").read_text() == "1 - 2"
        return (1, "FAILED tests/t.py::now\n") if is_mutated else (0, "")

    monkeypatch.setattr(copied, "_pytest", run)
    monkeypatch.setattr(copied, "tests", lambda mutant: [["tests/t.py::before", "tests/t.py::other"]])
    assert copied.test(Mutant(Path("a.py"), 1, 0, 5, "1 + 2", "1 - 2", range(1, 2)), 1.0) == (
        "killed",
        "tests/t.py::now",
    )
    assert runs == [
        ("1 - 2", ["-x", "tests/t.py::before", "tests/t.py::other"]),
        ("1 - 2", ["-x", "tests/t.py"]),
        ("1 + 2", ["tests/t.py::now"]),
    ]


def test_lowest_versions_are_exact() -> None:
    versions = [Requirement(line) for line in lowest_versions().splitlines()]
    assert {"torch", "numpy", "pytest"} <= {version.name for version in versions}
    assert all(str(version.specifier).startswith("==") for version in versions)
