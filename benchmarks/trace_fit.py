"""The amount of code that one fit enters: `python -m benchmarks.trace_fit`.

Counts the source files and the functions of bochner that `KernelClassifier().fit`, and the same without a search, enter
on 5,000 x 20 rows, and how deeply calls are nested. A function is a `def`, also a nested one; comprehensions, generator
expressions and lambdas belong to the function that contains them.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import bochner
from bochner import KernelClassifier

PACKAGE = str(Path(bochner.__file__).parent)


class Limit(NamedTuple):
    """Arguments of a classifier, and the maximum number of files and functions that its fit may enter on that many
    rows."""

    arguments: dict[str, Any]
    rows: int
    files: int
    functions: int


LIMITS = {
    "preset=None": Limit({"preset": None}, 5000, 25, 120),
    "defaults": Limit({}, 5000, 22, 160),  # a third of the functions belong to the search, in one file
}


@dataclass
class Trace:
    """Functions by file, and the deepest nesting of calls within the package."""

    functions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    depth: int = 0

    @property
    def num_files(self) -> int:
        return len(self.functions)

    @property
    def num_functions(self) -> int:
        return sum(map(len, self.functions.values()))

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """A profile function for `sys.setprofile`."""
        if event != "call" or not is_own(frame.f_code):
            return
        code = frame.f_code
        if not code.co_name.startswith("<"):
            self.functions[str(Path(code.co_filename).relative_to(PACKAGE))].add(code.co_qualname)
        caller: FrameType | None = frame
        depth = 0
        while caller is not None:
            depth += is_own(caller.f_code)
            caller = caller.f_back
        self.depth = max(self.depth, depth)


def is_own(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


def trace_fit(rows: int = 5000, **arguments: Any) -> Trace:
    """The trace of one fit on `rows` x 20 numbers in five classes."""
    from sklearn.datasets import make_classification

    X, y = make_classification(rows, 20, n_informative=8, n_classes=5, random_state=0)
    model, trace = KernelClassifier(random_state=0, **arguments), Trace()
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        model.fit(X, y)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return trace


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true", help="list the functions of each file")
    options = parser.parse_args()
    for title, limit in LIMITS.items():
        trace = trace_fit(limit.rows, **limit.arguments)
        files = f"{trace.num_files} files (at most {limit.files})"
        functions = f"{trace.num_functions} functions (at most {limit.functions})"
        print(f"{title}: {files}, {functions}, calls nested {trace.depth} deep")
        for file, functions in sorted(trace.functions.items()):
            print(f"  {len(functions):3} {file}" + (f": {', '.join(sorted(functions))}" if options.functions else ""))


if __name__ == "__main__":
    main()
