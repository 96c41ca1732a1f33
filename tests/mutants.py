"""Small random faults in the source, and whether the tests detect them.

    make coverage                                  # which tests run which lines, in out/coverage
    python -m tests.mutants --count 100

A mutant is one change of a copy of the source: a comparison or an operator swapped, a number off by one, a condition
negated, a statement removed. The tests of its module are run until one fails: those of the same name, those that import
the module, and its doctests; then those of its package. With the data of `make coverage`, only tests that run the
changed lines. A test that fails is run again on the original source, where it must pass. Survivors are printed; some of
them are equivalent to the original.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
COVERAGE = ROOT / "out" / "coverage" / "data"
FORKS = get_context("fork")
MAX_OTHERS = 100  # tests of other packages that run the changed lines
MAX_BYTES = 16 << 30
COPIED = ("src", "tests", "benchmarks", "examples", "pyproject.toml", "README.md", "CHANGELOG.md", "docs", "Makefile")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
}  # fmt: skip


class Mutant(NamedTuple):
    """The bytes [start, end) of a file, replaced by `text`."""

    path: Path  # below the root
    line: int
    start: int
    end: int
    before: str
    text: str
    lines: range  # of the statement, or of the header of a block

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before!r} -> {self.text!r}"


def mutants_of(path: Path, rng: random.Random) -> Iterator[Mutant]:
    """All places of a file that can be changed, each with one random change."""
    content = (ROOT / path).read_bytes()
    tree = ast.parse(content)
    offsets = [0]
    for line in content.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    skipped = {id(part) for node in ast.walk(tree) for part in _not_run(node) for part in ast.walk(part)}
    statements = _statements(tree)
    for node in ast.walk(tree):
        if id(node) in skipped or (changed := _changed(node, rng)) is None:
            continue
        start = offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        before = content[start:end].decode()
        text = changed if isinstance(changed, str) else f"({ast.unparse(changed)})"
        yield Mutant(path, node.lineno, start, end, before, text, statements[id(node)])  # type: ignore[attr-defined]


def _statements(tree: ast.Module) -> dict[int, range]:
    """The lines of the innermost statement of each node, for a block those before its body."""
    lines: dict[int, range] = {}

    def visit(node: ast.AST, inside: range) -> None:
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            inside = range(node.lineno, max(node.lineno + 1, body[0].lineno if body else (node.end_lineno or 0) + 1))
        lines[id(node)] = inside
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, range(1, 2))
    return lines


def _not_run(node: ast.AST) -> Iterator[ast.AST]:
    """Annotations, defaults of `__all__`, type variables, f-strings, error messages and log lines."""
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, ast.FunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.JoinedStr):
        yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield node
    call = node.value if isinstance(node, ast.Expr) else node
    if isinstance(call, ast.Call) and ast.unparse(call.func).startswith(("logger.", "warnings.")):
        yield node


def _changed(node: ast.AST, rng: random.Random) -> ast.expr | str | None:
    new = copy.deepcopy(node)
    match new:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            new.ops = [COMPARISONS[type(operator)]()]
            return new
        case ast.BinOp(op=operator) if type(operator) in OPERATORS and not _is_text(new):
            new.op = OPERATORS[type(operator)]()
            return new
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
            return new
        case ast.UnaryOp(op=ast.Not()):
            return new.operand
        case ast.Constant(value=value) if isinstance(value, int | float) and not isinstance(value, bool):
            return ast.Constant(value + rng.choice([-1, 1]))
        case ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
            return new
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            return "pass"
    return None


def _is_text(node: ast.BinOp) -> bool:
    """Concatenated text, or a union of types."""
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", 0), str) for part in ast.walk(node))


def mirrored_tests(path: Path) -> tuple[list[str], str | None]:
    """The tests of a module, and those of its package, or None where it is directly below the root."""
    inner = path.relative_to("src/bochner")
    module = ".".join(("bochner", *inner.with_suffix("").parts))
    package = ROOT / "tests" / inner.parent
    while not package.exists():
        package = package.parent
    parent = module.rpartition(".")[0]
    imports = re.compile(rf"(from|import) {re.escape(module)}\b|from {re.escape(parent)} import .*\b{inner.stem}\b")
    named = sorted(package.glob(f"test_*{inner.stem}*.py"))
    importing = [file for file in sorted((ROOT / "tests").rglob("test_*.py")) if imports.search(file.read_text())]
    files = [str(file.relative_to(ROOT)) for file in dict.fromkeys([*named, *importing])]
    return [*files, str(path)], None if package == ROOT / "tests" else str(package.relative_to(ROOT))


def covering_tests(data: CoverageData, mutant: Mutant) -> tuple[set[str], list[str]]:
    """The tests that run the changed lines, and the files of those that run them in a fixture.

    A fixture may serve other tests of the file, too, but its lines count for the first of them alone.
    """
    by_line = data.contexts_by_lineno(str(mutant.path))
    contexts = {context.partition("|") for line in mutant.lines for context in by_line.get(line, ())}
    files = {test.partition("::")[0] for test, _, phase in contexts if phase == "setup"}
    return {test for test, _, _ in contexts} - {""}, sorted(files)


def failed_test(output: str) -> str | None:
    """The first test that the summary of pytest names; lines of captured logs may begin in the same way."""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+?\.(?:py|md)\b.*?)(?: - |$)", output, flags=re.MULTILINE)
    return None if failed is None else failed[1]


class Copy:
    """A copy of the repository in which mutants are made and tested."""

    def __init__(self, directory: Path, coverage: Path | None) -> None:
        self.directory, self._data = directory, None
        directory.mkdir(exist_ok=True)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy(source, directory / name)
        if coverage is not None:
            self._data = CoverageData(str(coverage))
            self._data.read()

    def tests(self, mutant: Mutant) -> list[list[str]]:
        """Arguments of pytest, one list after the other until a test fails."""
        names, package = mirrored_tests(mutant.path)
        everything = [names, *([] if package is None else [[package]])]
        if self._data is None:
            return everything
        covering, files = covering_tests(self._data, mutant)
        if not covering:  # run on import only, or never
            return everything
        of_module = sorted(test for test in covering if test.partition("::")[0] in names)
        of_package = sorted(test for test in covering - {*of_module} if package and test.startswith(package))
        others = sorted(covering - {*of_module, *of_package})[:MAX_OTHERS]
        return [part for part in (of_module, of_package, others, files) if part]

    def test(self, mutant: Mutant, seconds: float) -> tuple[str, str]:
        """("killed", the test), ("survived", "") or ("unsure", why)."""
        path = self.directory / mutant.path
        original = path.read_bytes()
        for names in self.tests(mutant):
            path.write_bytes(original[: mutant.start] + mutant.text.encode() + original[mutant.end :])
            try:
                code, output = self._pytest(["-x", *names], seconds)
                if code == pytest.ExitCode.USAGE_ERROR:  # a test was renamed after `make coverage`: take its whole file
                    names = sorted({name.partition("::")[0] for name in names})
                    code, output = self._pytest(["-x", *names], seconds)
            finally:
                path.write_bytes(original)
            if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
                continue
            failed = failed_test(output)
            repeated = names if failed is None else [failed]
            if self._pytest(repeated, seconds)[0] == 0:
                return "killed", failed or f"pytest ended with {code}"
            return "unsure", f"{repeated[0]} fails on the original, too"
        return "survived", ""

    def _pytest(self, arguments: list[str], seconds: float) -> tuple[int | None, str]:
        """The exit code, or None after more than `seconds` of processor time, and the output.

        In a fork of this process, which has imported what takes long.
        """
        output = self.directory / "output"
        child = FORKS.Process(target=_run_pytest, args=(self.directory, arguments, output, seconds))
        child.start()
        child.join(10 * seconds)
        if child.is_alive():
            os.killpg(child.pid or 0, signal.SIGKILL)
            child.join()
        return None if (child.exitcode or 0) < 0 else child.exitcode, output.read_text()


def import_libraries() -> None:
    """Once, not in every fork; the settings of the tests precede them."""
    from tests import conftest  # noqa: F401, I001
    import hypothesis.extra.numpy  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401
    import sklearn.utils.estimator_checks  # noqa: F401
    import torch._dynamo  # noqa: F401


def _run_pytest(directory: Path, arguments: list[str], output: Path, seconds: float) -> None:
    os.setpgid(0, 0)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds)))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))  # a mutant may never stop to allocate
    os.environ |= {"PYTHONPATH": f"{directory / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path[:] = [
        str(directory / "src"),
        *(path for path in sys.path if path not in ("", str(ROOT), str(ROOT / "src"))),
    ]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("bochner", "tests")]:
        del sys.modules[name]
    os.chdir(directory)
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--modules", nargs="+", default=["src/bochner"], help="files or directories to change")
    parser.add_argument("--seconds", type=float, default=600, help="of processor time for the tests of one mutant")
    parser.add_argument("--minutes", type=float, default=600, help="no mutant is started after this many")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that are tested at the same time")
    parser.add_argument("--output", type=Path, help="a JSON Lines file for the results; what it holds is not repeated")
    parser.add_argument("--coverage", type=Path, default=COVERAGE, help="which tests run which lines, if it exists")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    paths = [ROOT / name for name in options.modules]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) if path.is_dir() else [path])]
    all_mutants = [mutant for file in files for mutant in mutants_of(file.relative_to(ROOT), rng)]
    drawn = rng.sample(all_mutants, min(options.count, len(all_mutants)))
    import_libraries()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name).resolve()
        output = options.output or directory / "outcomes.jsonl"
        output.touch()
        done = read_outcomes(output)
        todo = [mutant for mutant in drawn if str(mutant) not in done]
        coverage = options.coverage if options.coverage.exists() else None
        position, deadline = FORKS.Value("i", 0), time.monotonic() + 60 * options.minutes
        shared = (todo, position, output, coverage, options.seconds, deadline)
        workers = [FORKS.Process(target=work_on, args=(directory / str(i), *shared)) for i in range(options.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        outcomes = [outcome for mutant, outcome in read_outcomes(output).items() if mutant in {*map(str, drawn)}]
    killed, sure = outcomes.count("killed"), len(outcomes) - outcomes.count("unsure")
    print(f"{killed} of {sure} mutants killed, drawn from {len(all_mutants):,} with seed {options.seed}")


def read_outcomes(path: Path) -> dict[str, str]:
    return {line["mutant"]: line["outcome"] for line in map(json.loads, path.read_text().splitlines())}


def work_on(
    directory: Path, todo: list[Mutant], position: Any, output: Path, coverage: Path | None, seconds: float, end: float
) -> None:
    """Test the next mutant that no other process tests, until none is left or the time is over."""
    copied = Copy(directory, coverage)
    while time.monotonic() < end:
        with position.get_lock():
            place, position.value = position.value, position.value + 1
        if place >= len(todo):
            break
        outcome, reason = copied.test(todo[place], seconds)
        print(f"{outcome:<8}  {todo[place]}  {reason}", flush=True)
        with output.open("a") as file:
            file.write(json.dumps({"mutant": str(todo[place]), "outcome": outcome, "reason": reason}) + "\n")


if __name__ == "__main__":
    main()
