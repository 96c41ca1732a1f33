"""Epochs of the papers' two shapes: ours compared with plain torch and the machine's ceilings. See README.md."""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.ceilings import ceilings, shown
from benchmarks.measure import synchronize
from benchmarks.step_contenders import Contender, Plain, Trained, heldout_ce, tf32
from benchmarks.step_parts import profile, time_parts, tune
from benchmarks.step_problem import BN50, TIMIT, Problem, Shape, make_problem
from benchmarks.step_timing import rounds_of
from bochner.ops import has_bf16_units

HELDOUT = 4096
CHUNK = 24  # minibatches drawn together: a multiple of every contender's block
PARTS = 2048  # rows whose features are computed together
CPU_FEATURES = 16_384
LARGE = [TIMIT.with_features(1_600_000), BN50.with_features(400_000)]

Record = dict[str, Any]
Make = Callable[[Problem], Contender]


def main() -> None:
    options = _parser().parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    record: Record = {"machine": _machine(device), "ceilings": ceilings(device, size=512 if options.quick else None)}
    print(json.dumps(record["machine"]), "\nceilings:", shown(record["ceilings"]), flush=True)
    shapes = _shapes(device, options)
    record["shapes"] = [_run_shape(shape, device, options, record["ceilings"]) for shape in shapes]
    if options.large and device.type == "cuda":
        record["large"] = [_run_large(shape, device) for shape in LARGE]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    _plot(record, options.out.with_suffix(".png"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, for a smoke test")
    parser.add_argument("--shapes", nargs="+", default=["TIMIT", "BN-50"])
    parser.add_argument("--steps", type=int, default=240, help="steps timed in each of three rounds")
    parser.add_argument("--ce-steps", type=int, default=1024, help="steps before heldout CE is compared; 0 skips this")
    parser.add_argument("--minibatches", type=int, nargs="+", default=[], help="also superbatches of these sizes")
    parser.add_argument("--compile", action="store_true", help="also plain torch under torch.compile")
    parser.add_argument("--tune", action="store_true", help="also sweep the kernels' tiles")
    parser.add_argument("--large", action="store_true", help="also the largest models")
    parser.add_argument("--out", type=Path, default=Path("out/benchmarks/step.json"))
    return parser


def _shapes(device: torch.device, options: argparse.Namespace) -> list[Shape]:
    chosen = [shape for shape in (TIMIT, BN50) if shape.name in options.shapes]
    if options.quick:
        return [shape.with_features(2048) for shape in chosen]
    return chosen if device.type == "cuda" else [TIMIT.with_features(CPU_FEATURES)]


def _run_shape(shape: Shape, device: torch.device, options: argparse.Namespace, limits: dict[str, float]) -> Record:
    chunk = CHUNK * shape.batch_size if device.type == "cuda" else shape.batch_size
    num_rows = 16 * chunk if device.type == "cpu" else 11 * chunk
    problem = make_problem(shape, num_rows=num_rows + HELDOUT, device=device)
    found: Record = {"shape": asdict(shape), "steps": options.steps, "flops": shape.flops}
    if device.type == "cuda":
        if options.tune:
            found["tuning"] = tune(problem, rows=PARTS)
        found["parts"] = time_parts(problem, rows=PARTS)
        found["profile"] = profile(problem, steps=CHUNK)
    found["contenders"] = {
        name: _time_contender(name, make, dtype, problem, chunk, options)
        for name, make, dtype in _contenders(device, options)
    }
    best = limits["bf16" if device.type == "cuda" else "float32"] / 1e3
    for name, contender in found["contenders"].items():
        contender["share_of_ceiling"] = contender["tflops"] / best
        print(f"{shape.name:6} {name:24} {contender['share_of_ceiling']:.0%} of {best:.3g} TFLOP/s", flush=True)
    return found


def _contenders(device: torch.device, options: argparse.Namespace) -> Iterator[tuple[str, Make, torch.dtype]]:
    yield "float32", lambda problem: Plain(problem, torch.float32), torch.float32
    if device.type == "cpu":
        yield "ours", Trained, torch.float32
        if has_bf16_units(device):
            yield "ours, bf16", lambda problem: Trained(problem, "bf16"), torch.float32
        return
    yield "TF32", lambda problem: Plain(problem, torch.float32), torch.float32
    yield "bf16", lambda problem: Plain(problem, torch.bfloat16), torch.bfloat16
    if options.compile:
        yield "bf16 + compile", lambda problem: Plain(problem, torch.bfloat16, compiled=True), torch.bfloat16
    yield "ours", lambda problem: Trained(problem, "bf16"), torch.bfloat16
    for count in options.minibatches:
        yield (
            f"ours, {count} at once",
            lambda problem, count=count: Trained(problem, "bf16", minibatches=count),
            torch.bfloat16,
        )


def _time_contender(
    name: str, make: Make, dtype: torch.dtype, problem: Problem, chunk: int, options: argparse.Namespace
) -> Record:
    """Milliseconds per step, the resulting epoch, and the heldout CE after `ce_steps` steps from the start."""
    shape, X = problem.shape, problem.X.to(dtype)
    rows = len(X) - HELDOUT
    order = torch.randperm(rows, generator=torch.Generator().manual_seed(0)).to(X.device)
    with tf32(name == "TF32"):
        contender = make(problem)

        def take(count: int) -> None:
            for start in range(0, count * shape.batch_size, chunk):
                chosen = order[start % rows : start % rows + chunk]
                contender.take(X[chosen], problem.y[chosen])

        found: Record = {}
        if options.ce_steps:
            take(options.ce_steps)
            with tf32(False):
                found["heldout_ce"] = heldout_ce(problem, contender.head, slice(rows, None))
        steps = max(chunk // shape.batch_size, options.steps)
        times = rounds_of(lambda: take(steps), X.device, rounds=3, warm_up=not options.ce_steps)
    milliseconds = [1e3 * seconds / steps for seconds in times]
    found |= {"ms_per_step": milliseconds, "epoch_seconds": statistics.median(milliseconds) * shape.steps / 1e3}
    middle = statistics.median(milliseconds)
    found["tflops"] = shape.flops / middle / 1e9
    print(f"{shape.name:6} {name:24} {middle:8.4f} ms/step  epoch {found['epoch_seconds']:7.2f} s  "
          f"{found['tflops']:6.3g} TFLOP/s  CE {found.get('heldout_ce', float('nan')):.5f}", flush=True)  # fmt: skip
    return found


def _run_large(shape: Shape, device: torch.device) -> Record:
    """Memory and time of a few steps."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    chunk = 4 * shape.batch_size
    problem = make_problem(shape, num_rows=chunk, device=device)
    contender, X = Trained(problem, "bf16", minibatches=4), problem.X.bfloat16()
    times = rounds_of(lambda: contender.take(X, problem.y), device, rounds=3)
    found = {
        "shape": asdict(shape),
        "ms_per_step": [1e3 * seconds / 4 for seconds in times],
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "finite": all(bool(part.isfinite().all()) for part in contender.head),
    }
    print(f"{shape.name} D = {shape.num_features}: {statistics.median(found['ms_per_step']):.3f} ms/step, "
          f"{found['peak_bytes'] / 2**30:.1f} GiB, finite {found['finite']}", flush=True)  # fmt: skip
    return found


def _machine(device: torch.device) -> Record:
    synchronize(device)
    found = {"python": platform.python_version(), "torch": torch.__version__, "when": time.strftime("%Y-%m-%d")}
    if device.type == "cuda":
        import triton

        return found | {"device": torch.cuda.get_device_name(), "triton": triton.__version__}
    return found | {"device": "CPU", "threads": torch.get_num_threads()}


def _plot(record: Record, path: Path) -> None:
    """Seconds per epoch, one panel per shape; without Matplotlib only the JSON is written."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ModuleNotFoundError:
        print("no plot: Matplotlib is not installed")
        return
    figure, axes = pyplot.subplots(len(record["shapes"]), 1, figsize=(7, 3 * len(record["shapes"])), squeeze=False)
    for axis, shape in zip(axes[:, 0], record["shapes"], strict=True):
        names = list(shape["contenders"])
        axis.barh(names[::-1], [shape["contenders"][name]["epoch_seconds"] for name in names[::-1]])
        axis.set_xlabel(f"{shape['shape']['name']}: seconds per epoch")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
