"""`python -m tests.matrix`: the tests in the environments of other machines, one row per environment.

    make test-matrix                                            # everything, an hour or more
    python -m tests.matrix tests/solvers tests/kernels          # a selection, as pytest takes it
    python -m tests.matrix --only "SSE" "2 threads" -- tests/solvers -k landmarks

Libraries are limited to older instruction sets, threads, load, time zone and locale are changed, and other versions of
Python and the lowest required versions are installed into separate environments, where possible. A row that could not
be run gives the reason. The exit code is 1 if a test has failed anywhere.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / "out" / "matrix"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BUSY = [sys.executable, "-c", "while True: pass"]


class Case(NamedTuple):
    """Environment variables, processes that keep the machine busy, and an interpreter to be installed first."""

    variables: dict[str, str] = {}  # noqa: RUF012  (never changed)
    num_busy: int = 0
    python: str | None = None
    lowest: bool = False


def numpy_features(*prefixes: str) -> str:
    """The features that NumPy may use on this CPU and whose names begin so; others are an error to disable."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if name.startswith(prefixes) and __cpu_features__[name])


def cases() -> dict[str, Case]:
    without_avx512 = {"NPY_DISABLE_CPU_FEATURES": numpy_features("X86_V4", "AVX512")}
    without_avx = {"NPY_DISABLE_CPU_FEATURES": numpy_features("X86_V", "AVX", "FMA")}
    avx2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    sse = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}
    elsewhere = {"TZ": "Pacific/Kiritimati", "LC_ALL": other_locale()}
    return {
        "as it is": Case(),
        "torch AVX2": Case({"ATEN_CPU_CAPABILITY": "avx2"}),
        "torch default": Case({"ATEN_CPU_CAPABILITY": "default"}),
        "MKL AVX2": Case({"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
        "MKL SSE4.2": Case({"MKL_ENABLE_INSTRUCTIONS": "SSE4_2"}),
        "OpenBLAS Haswell": Case({"OPENBLAS_CORETYPE": "Haswell"}),
        "NumPy without AVX-512": Case(without_avx512),
        "AVX2": Case({**avx2, **without_avx512, "OPENBLAS_CORETYPE": "Haswell"}),
        "SSE": Case({**sse, **without_avx, "OPENBLAS_CORETYPE": "Nehalem"}),
        "2 threads": Case({"BOCHNER_TEST_THREADS": "2", "OMP_NUM_THREADS": "2"}),
        "eight busy processes": Case(num_busy=8),
        f"TZ={elsewhere['TZ']}, LC_ALL={elsewhere['LC_ALL']}": Case(elsewhere),
        **{f"Python {version}": Case(python=version) for version in PYTHONS},
        "lowest versions": Case(python=f"{sys.version_info.major}.{sys.version_info.minor}", lowest=True),
    }


def other_locale() -> str:
    """A locale with decimal commas or another lower case of I, if the system has one, else C."""
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    return next((name for prefix in ("tr_", "de_", "fr_") for name in known if name.startswith(prefix)), "C")


def lowest_versions() -> str:
    """Constraints that turn each lower bound of pyproject.toml into the version itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bounds = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    pairs = (re.match(r"([\w-]+)(?:\[[\w,]+\])?>=([\w.]+)", bound) for bound in bounds)
    return "".join(f"{match[1]}=={match[2]}\n" for match in pairs if match)


def installed(case: Case) -> tuple[Path | None, str]:
    """The interpreter of a case, in an environment that is made if necessary; or None and why there is none."""
    if case.python is None:
        return Path(sys.executable), ""
    base = shutil.which(f"python{case.python}")
    if base is None:
        return None, f"no python{case.python}"
    if not case.lowest and case.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable), ""
    directory = ENVIRONMENTS / f"python{case.python}{'-lowest' if case.lowest else ''}"
    python, marker = directory / "bin" / "python", directory / "installed"
    if not marker.exists():
        shutil.rmtree(directory, ignore_errors=True)
        made = subprocess.run([base, "-m", "venv", str(directory)], capture_output=True, text=True)
        if made.returncode:
            return None, _last_line(made.stderr or made.stdout)
        constraints = ROOT / "constraints.txt"
        if case.lowest:
            constraints = directory / "lowest.txt"
            constraints.write_text(lowest_versions())
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
        for words in (["torch"], ["-e", f"{ROOT}[test]"]):
            done = subprocess.run([*pip, *words], capture_output=True, text=True)
            if done.returncode:
                return None, _last_line(done.stderr)
        marker.touch()
    return python, ""


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["failed"])[-1][:100]


@contextmanager
def busy(count: int) -> Iterator[None]:
    processes = [subprocess.Popen(BUSY) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run(case: Case, arguments: list[str]) -> tuple[bool, str]:
    """Whether no test has failed, and the last line of pytest; tests that failed are printed."""
    python, reason = installed(case)
    if python is None:
        return True, f"not run: {reason}"
    warnings = ",".join(filter(None, [os.environ.get("PYTHONWARNINGS"), "ignore::ImportWarning"]))
    environment = {**os.environ, **case.variables, "PYTHONWARNINGS": warnings}
    with busy(case.num_busy):
        done = subprocess.run(
            [str(python), "-m", "pytest", "-q", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
        )
    lines = done.stdout.splitlines()
    for line in lines:
        if line.startswith(("FAILED", "ERROR")):
            print(f"    {line}", flush=True)
    return done.returncode == 0, _last_line(done.stdout or done.stderr).strip("= ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = cases()
    parser.add_argument(
        "--only", nargs="+", choices=list(known), default=list(known), metavar="NAME", help=f"{[*known]}"
    )
    parser.add_argument("pytest", nargs="*", help="arguments of pytest; by default all tests, one process per core")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # busy processes end with this one
    failed = False
    for name in options.only:
        passed, summary = run(known[name], options.pytest or ["-n", "auto", "--dist", "loadfile"])
        print(f"{'passed' if passed else 'FAILED'}  {name:<44}  {summary}", flush=True)
        failed |= not passed
    sys.exit(failed)


if __name__ == "__main__":
    main()
