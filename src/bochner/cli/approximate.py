"""`bochner approximate`: a low-rank factor of a kernel matrix, and its errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Generator, Tensor

from bochner import checks
from bochner.cli.logs import labelled
from bochner.cli.tables import Columns, column_list
from bochner.data import MappedSource, Standardize, open_source, statistics
from bochner.data.blocks import Source, concatenate, read_shard
from bochner.kernels import Kernel, Stationary
from bochner.lowrank import (
    LOWRANK_METHODS,
    Estimate,
    Factor,
    fit_factor,
    frobenius_error,
    spectral_error,
    stable_rank,
    trace_error,
)
from bochner.lowrank.methods import MethodName
from bochner.search.kernel import resolve_kernel
from bochner.stages import write_json
from bochner.storage import save

logger = logging.getLogger(__name__)

ERROR_ROWS = 500  # rows of K on which the Frobenius error is estimated
# Added to the seed for the points on which errors are measured; with the same seed they would be the landmarks.
ERROR_SEED = 1_000_000


def approximate(
    data: Path,
    *,
    rank: int,
    method: MethodName | Literal["all"] = "nystrom",
    kernel: str = "gaussian",
    bandwidth: float | Literal["median", "mean", "neighbor"] | None = None,
    standardize: bool = False,
    target: str | None = None,
    columns: Columns = None,
    error_points: int | None = 1000,
    output_dir: Path | None = None,
    overwrite: bool = False,
    random_state: int = 0,
) -> None:
    """Approximate the kernel matrix K of a file of rows by U U^T and report the error; K is never stored.

    Examples:

        bochner approximate houses.csv --rank 200 --target price --standardize
        bochner approximate digits.npz --rank 100 --method all
        bochner approximate digits.npz --rank 100 --method als --bandwidth 24 --output_dir out/digits

    Every method stores about n x RANK numbers. "nystrom" (8 RANK random pivots, truncated to RANK columns) is the
    recommended one; "all" compares the methods and saves their factors only if --output_dir is given. The page "Which
    low-rank method" of the documentation compares them.

    Use a factor from Python: `factor = bochner.load("out/digits/nystrom_factor.safetensors")`, then
    `factor.solve(alpha, y)`, `factor.transform(new_rows)`, `factor.eigenpairs()`.

    Args:
        data: Rows: .csv (.csv.gz), .parquet, .arrow, .feather, .npz, .npy, .libsvm, or a directory of shards.
        rank: Columns of U. "meka" has more of them and stores as many numbers.
        method: The algorithm; "all" runs every one.
        kernel: A kernel by name: "gaussian" ("rbf"), "laplacian", "matern52", "polynomial", ...
        bandwidth: A number, or the rule that computes it from the rows. Default: "median" if the kernel has one.
        standardize: Scale every input to mean 0 and standard deviation 1 first.
        target: A column, or an array in an .npz, that is not an input.
        columns: Inputs, separated by commas. Default: all columns but target. For an .npz the name of its array of
            inputs.
        error_points: Points per estimate of the spectral error, the mean of 5; null: all points, by sweeps over K.
        output_dir: Directory for METHOD_factor.safetensors and approximation.json. Default: out/NAME for a file
            NAME.csv; nothing is saved for "all".
        overwrite: Replace the factor of an earlier call.
        random_state: Seed of all random numbers.
    """
    if output_dir is None and method != "all":
        output_dir = Path("out", data.resolve().name.partition(".")[0])
    methods = list(LOWRANK_METHODS) if method == "all" else [method]
    if output_dir is not None and not overwrite:
        _refuse_existing(output_dir, methods)
    X = read_points(open_source(data, target=target, columns=column_list(columns)), standardize=standardize)
    scaled = ", standardized" if standardize else ""
    logger.info(labelled("data", f"{data}: {len(X):,} points, {X.shape[1]:,} inputs{scaled}"))
    resolved = resolve_kernel(kernel, bandwidth, X, Generator().manual_seed(random_state))
    has_rule = isinstance(resolved, Stationary) and not isinstance(bandwidth, float)
    rule = f", bandwidth by the {bandwidth or 'median'} rule" if has_rule else ""
    logger.info(labelled("kernel", f"{resolved!r}{rule}"))
    size = stable_rank(resolved, X, num_points=error_points, generator=Generator().manual_seed(random_state))
    points = "" if error_points is None or error_points >= len(X) else f" on {error_points:,} random points"
    logger.info(labelled("K", f"stable rank {format_estimate(size)}{points}"))
    sample = f" from {ERROR_ROWS} random rows" if len(X) > ERROR_ROWS else ""
    protocol = f"spectral{points}, Frobenius{sample}, trace of all points; ± standard error"
    logger.info(labelled("errors", protocol))
    print(f"\n{HEADER}", flush=True)
    rows = []
    for row, factor in _fit_methods(methods, resolved, X, rank, error_points, random_state):
        print(format_row(row), flush=True)
        rows.append({name: part._asdict() if isinstance(part, Estimate) else part for name, part in row.items()})
        if output_dir is not None:
            output_dir.mkdir(parents=True, exist_ok=True)
            save(factor, _factor_file(output_dir, row["method"]))
    if output_dir is not None:
        summary = {"kernel": repr(resolved), "points": len(X), "errors": protocol, "methods": rows}
        write_json(output_dir / "approximation.json", summary)
        print()
        logger.info(labelled("factors", str(output_dir)))


def read_points(source: Source, *, standardize: bool) -> Tensor:
    """All rows [n, d] in float64: kernel values are as precise as the points."""
    if standardize:
        moments = statistics(source)
        source = MappedSource(source, Standardize(moments.mean, moments.std))
    shards = [shard for shard, size in enumerate(source.shard_sizes) if size]
    return checks.finite("the inputs", concatenate([read_shard(source, shard) for shard in shards]).X.double())


def _fit_methods(
    methods: Sequence[str], kernel: Kernel, X: Tensor, rank: int, error_points: int | None, seed: int
) -> Iterator[tuple[dict[str, Any], Factor]]:
    """Each method's factor, all from the same seed; one of several that cannot be fitted is skipped with a warning."""
    for method in methods:
        start = time.perf_counter()
        try:
            factor = fit_factor(method, kernel, X, rank=rank, generator=Generator().manual_seed(seed))
        except ValueError as error:
            if len(methods) == 1 or rank > len(X):
                raise
            logger.warning(f"{method} is skipped: {error}")
            continue
        seconds = time.perf_counter() - start
        yield {"method": method, "seconds": seconds, **_measure(factor, X, error_points, seed + ERROR_SEED)}, factor


def _measure(factor: Factor, X: Tensor, error_points: int | None, seed: int) -> dict[str, Any]:
    """The size of a factor and its errors, on the same points and rows for every method."""
    values = factor.eigenpairs().values
    return {
        "rank": factor.rank,
        "parameters": factor.num_parameters,
        "spectral": spectral_error(factor, X, num_points=error_points, generator=Generator().manual_seed(seed)),
        "frobenius": frobenius_error(factor, X, num_rows=ERROR_ROWS, generator=Generator().manual_seed(seed)),
        "trace": trace_error(factor, X),
        "condition_number": factor.condition_number(),
        "stable_rank": float(values.square().sum() / values[0] ** 2),
    }


HEADER = (
    f"{'method':<24} {'rank':>5} {'parameters':>12} {'seconds':>8} {'spectral':>20} {'Frobenius':>20} {'trace':>10} "
    f"{'condition':>10} {'stable rank':>11}"
)


def format_row(row: Mapping[str, Any]) -> str:
    spectral, frobenius, trace = (format_estimate(row[name]) for name in ("spectral", "frobenius", "trace"))
    return (
        f"{row['method']:<24} {row['rank']:>5} {row['parameters']:>12,} {row['seconds']:>8.2f} {spectral:>20} "
        f"{frobenius:>20} {trace:>10} {row['condition_number']:>10.3g} {row['stable_rank']:>11.4g}"
    )


def format_estimate(estimate: Estimate) -> str:
    """The value, with its error if it was estimated.

    >>> format_estimate(Estimate(0.51234, 0.0)), format_estimate(Estimate(0.51234, 0.0123))
    ('0.512', '0.512 ± 0.012')
    """
    return f"{estimate.value:.3g}" + (f" ± {estimate.error:.2g}" if estimate.error else "")


def _factor_file(output_dir: Path, method: str) -> Path:
    return output_dir / f"{method}_factor.safetensors"


def _refuse_existing(output_dir: Path, methods: Sequence[str]) -> None:
    for file in (_factor_file(output_dir, method) for method in methods):
        if file.exists():
            raise ValueError(f"output_dir: {file} exists; choose another --output_dir, or give --overwrite.")
