"""What `bochner train` says."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from bochner.cli.failures import warn
from bochner.cli.parts import Parts
from bochner.cli.rows import Columns, has_columns, listed
from bochner.cli.run import Effort
from bochner.cli.scoring import Metrics
from bochner.cli.task import Choice
from bochner.data import classes_of, statistics
from bochner.data.blocks import Source, num_rows
from bochner.data.labels import shown
from bochner.search.fit import EXACT_ROWS, NORMAL_FEATURES

DIFFERENT_UNITS = 100.0
BINARY_SCALE = 0.5


def say(name: str, text: str) -> None:
    print(f"{name:<9} {text}", flush=True)


def say_data(data: Path, rows: Source, parts: Parts, choice: Choice) -> None:
    """What goes in, and what it is taken for."""
    say("data", f"{data}: {num_rows(rows):,} rows, {rows.num_inputs:,} inputs")
    say("task", f"{choice.task} ({choice.reason})")
    if choice.task == "classify":
        classes = classes_of(rows).tolist()
        say("classes", f"{len(classes):,}: {shown(classes)}")
    say("heldout", f"{parts.protocol}; never trained on")


def say_solver(solver: str, model: Any) -> None:
    """Which one, and by which rule of `choose_solver`."""
    reasons = {
        "newton": f"at most {EXACT_ROWS:,} rows: Newton steps with rows as landmarks take seconds",
        "landmarks": f"at most {EXACT_ROWS:,} rows: least squares with rows as landmarks takes seconds",
        "ridge": f"numbers, and at most {NORMAL_FEATURES:,} features: one pass of normal equations",
        "sgd": f"more than {EXACT_ROWS:,} rows, or what it alone can do: rank, num_blocks",
    }
    say("solver", f"{solver} ({reasons[solver] if model.solver == 'auto' else 'as asked'})")


def warn_of_units(rows: Source, model: Any) -> None:
    """A kernel of distances sees little but the widest inputs. One pass; inputs of 0 and 1 count as equally wide."""
    if model.standardize:
        return
    _, mean, std, _ = statistics(rows)
    is_binary = (mean > 0) & (mean < 1) & torch.isclose(std.square(), mean * (1 - mean), rtol=1e-6, atol=0)
    std = torch.where(is_binary, BINARY_SCALE, std)[std > 0]
    if len(std) and std.max() > DIFFERENT_UNITS * std.min():
        warn(
            f"the inputs' standard deviations lie between {std.min():.3g} and {std.max():.3g}: if they have different "
            "units, use --standardize; if they are alike, as pixels are, leave them."
        )


def say_fit(model: Any, effort: Effort) -> None:
    """What was fitted, and what it cost."""
    say("kernel", _kernel(model))
    epochs = f"{len(model.history_)} epochs, " if model.history_ else ""
    rate = effort.rows / max(effort.seconds, 1e-9)
    say("fit", f"{epochs}{effort.seconds:.1f} s, {rate:,.0f} rows a second{_peak_memory()}")


def _kernel(model: Any) -> str:
    kernel, given = model.kernel_, model.bandwidth
    if not hasattr(kernel, "bandwidth"):
        return repr(kernel)
    rule = given or "median"
    if isinstance(rule, str) and (given is not None or isinstance(model.kernel, str)):
        source = f" by the {rule} rule"
    else:
        source = ", as given"
    standardized = " on standardized inputs" if model.standardize else ""
    return f"{type(kernel).__name__}{standardized}, bandwidth {kernel.bandwidth:.4g}{source}"


def _peak_memory() -> str:
    """The most memory that this process had, where the system counts it."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f", at most {peak * (1 if sys.platform == 'darwin' else 1024) / 2**20:,.0f} MiB of memory"


def say_heldout(metrics: Metrics, parts: Parts) -> None:
    say("heldout", "  ".join(f"{name} {value:.4g}" for name, value in metrics.items()))
    say("", f"({parts.protocol}; never trained on, but used for choices such as when to stop)")


def say_next(data: Path, target: str | None, columns: Columns, folder: Path) -> None:
    """Commands to copy; columns of a table are known to the model, the name of an array is not."""
    inputs = [] if columns is None or has_columns(data) else ["--columns", ",".join(listed(columns) or [])]
    targets = [] if target is None else ["--target", target]
    say("model", str(folder))
    say("next", shlex.join(["bochner", "predict", str(folder), str(data), *inputs, "--output", "predictions.csv"]))
    say("", shlex.join(["bochner", "evaluate", str(folder), "TEST_DATA", *inputs, *targets]))
