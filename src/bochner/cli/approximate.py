"""`bochner approximate`: a kernel matrix as U U^T, and how near it is."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from torch import Generator, Tensor

from bochner import checks
from bochner.cli.failures import warn
from bochner.cli.report import say
from bochner.cli.rows import Columns, listed
from bochner.data import MappedSource, Standardize, open_source, statistics
from bochner.data.blocks import Source, concatenate, read_shard
from bochner.kernels import Kernel
from bochner.lowrank import Estimate, Factor, frobenius_error, spectral_error, stable_rank, trace_error
from bochner.search.kernel import resolve_kernel
from bochner.storage import save
from bochner.studies.lowrank.methods import METHODS

Method = Literal[
    "nystrom", "kmeans-nystrom", "ensemble", "pivoted-cholesky", "als", "svd", "meka", "fourier", "all"
]  # fmt: skip
KernelName = Literal["cauchy", "gaussian", "laplacian", "matern12", "matern32", "matern52", "sparse-gaussian"]
ERROR_ROWS = 500  # of K, from which its Frobenius error is told
ERROR_SEED = 1_000_000  # added for the errors' points: drawn with the seed of the landmarks they would be those


@dataclass(frozen=True)
class Row:
    """One method's factor: what it takes, and how far it is from K."""

    method: str
    rank: int
    parameters: int
    seconds: float
    spectral: Estimate
    frobenius: Estimate
    trace: Estimate
    condition_number: float
    stable_rank: float


def approximate(
    data: Path,
    *,
    rank: int,
    method: Method = "nystrom",
    kernel: KernelName = "gaussian",
    bandwidth: float | Literal["median", "mean"] = "median",
    standardize: bool = False,
    target: str | None = None,
    columns: Columns = None,
    error_points: int | None = 1000,
    output_dir: Path | None = None,
    overwrite: bool = False,
    random_state: int = 0,
) -> None:
    """Approximate the kernel matrix of a file of rows by U U^T, without ever holding it; say how near it is.

    Examples:

        bochner approximate houses.csv --rank 200 --target price --standardize
        bochner approximate digits.npz --rank 100 --method all
        bochner approximate digits.npz --rank 100 --method als --bandwidth 24 --output_dir out/digits

    Every method gets the numbers of an n x RANK matrix. "nystrom" (random pivots, cut back from 8 RANK landmarks) is
    the one to take unless you know better; "all" compares the methods, without keeping their factors unless
    --output_dir says where. The page "Which low-rank method" of the documentation says more.

    A factor is used from Python: `factor = bochner.load("out/digits/nystrom_factor.safetensors")`, then
    `factor.solve(ridge, y)`, `factor.transform(new_rows)`, `factor.eigenpairs()`.

    Args:
        data: Rows: .csv (.csv.gz), .parquet, .arrow, .feather, .npz, .npy, .libsvm, or a folder of shards.
        rank: Columns of U. "meka" takes more of them and stores as many numbers.
        method: How U is found; "all" tries every one.
        kernel: A kernel by name.
        bandwidth: A number, or the rule by which it is taken from the rows.
        standardize: Bring every input to mean 0 and standard deviation 1 first.
        target: A column, or an array in an .npz, that is no input.
        columns: Inputs, with commas between them. Default: all columns but target. For an .npz the name of its array
            of inputs.
        error_points: Points on which the spectral error is told, 5 times anew; null: on all, which takes sweeps over K.
        output_dir: Folder for METHOD_factor.safetensors and approximation.json. Default: out/NAME for a file NAME.csv;
            nothing is kept of "all".
        overwrite: Replace the factor of an earlier call.
        random_state: Seed of everything random.
    """
    folder = _folder(data, output_dir, method)
    methods = list(METHODS) if method == "all" else [method]
    if folder is not None and not overwrite:
        _refuse_existing(folder, methods)
    X = read_points(open_source(data, target=target, columns=listed(columns)), standardize=standardize)
    say("data", f"{data}: {len(X):,} points, {X.shape[1]:,} inputs{', standardized' if standardize else ''}")
    found = resolve_kernel(kernel, bandwidth, X, Generator().manual_seed(random_state))
    say("kernel", repr(found) + (f", bandwidth by the {bandwidth} rule" if isinstance(bandwidth, str) else ""))
    size = stable_rank(found, X, num_points=error_points, generator=Generator().manual_seed(random_state))
    say("K", f"stable rank {shown(size)}{_points(error_points, X)}")
    say("errors", _protocol(error_points, X))
    print(f"\n{HEADER}", flush=True)
    rows = []
    for row, factor in _fitted(methods, found, X, rank, error_points, random_state):
        print(line(row), flush=True)
        rows.append(row)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            save(factor, _factor_file(folder, row.method))
    if folder is not None:
        write_rows(
            folder / "approximation.json", rows, kernel=repr(found), points=len(X), protocol=_protocol(error_points, X)
        )
        print()
        say("factors", str(folder))


def read_points(source: Source, *, standardize: bool) -> Tensor:
    """All rows [n, d] in float64: kernel values have the digits of the points."""
    if standardize:
        found = statistics(source)
        source = MappedSource(source, Standardize(found.mean, found.std))
    shards = [shard for shard, size in enumerate(source.shard_sizes) if size]
    return checks.finite("the inputs", concatenate([read_shard(source, shard) for shard in shards]).X.double())


def _fitted(
    methods: Sequence[str], kernel: Kernel, X: Tensor, rank: int, error_points: int | None, seed: int
) -> Iterator[tuple[Row, Factor]]:
    """One method after the other, each from the same seed; among several, one that cannot be is left out."""
    for method in methods:
        start = time.perf_counter()
        try:
            factor = METHODS[method](kernel, X, rank, Generator().manual_seed(seed))
        except ValueError as error:
            if len(methods) == 1 or rank > len(X):
                raise
            warn(f"{method} is left out: {error}")
            continue
        yield _measured(method, factor, X, time.perf_counter() - start, error_points, seed), factor


def _measured(method: str, factor: Factor, X: Tensor, seconds: float, error_points: int | None, seed: int) -> Row:
    """Errors on points and rows that are the same for every method."""
    values, seed = factor.eigenpairs().values, seed + ERROR_SEED
    return Row(
        method,
        factor.rank,
        factor.num_parameters,
        seconds,
        spectral=spectral_error(factor, X, num_points=error_points, generator=Generator().manual_seed(seed)),
        frobenius=frobenius_error(factor, X, num_rows=ERROR_ROWS, generator=Generator().manual_seed(seed)),
        trace=trace_error(factor, X),
        condition_number=factor.condition_number(),
        stable_rank=float(values.square().sum() / values[0] ** 2),
    )


# -- what is said and written ----------------------------------------------------------------------------------

HEADER = (
    f"{'method':<17} {'rank':>5} {'parameters':>12} {'seconds':>8} {'spectral':>20} {'Frobenius':>20} {'trace':>10} "
    f"{'condition':>10} {'stable rank':>11}"
)


def line(row: Row) -> str:
    return (
        f"{row.method:<17} {row.rank:>5} {row.parameters:>12,} {row.seconds:>8.2f} {shown(row.spectral):>20} "
        f"{shown(row.frobenius):>20} {shown(row.trace):>10} {row.condition_number:>10.3g} {row.stable_rank:>11.4g}"
    )


def shown(estimate: Estimate) -> str:
    """The value, and what is unsure about it where it was sampled.

    >>> shown(Estimate(0.51234, 0.0)), shown(Estimate(0.51234, 0.0123))
    ('0.512', '0.512 ± 0.012')
    """
    return f"{estimate.value:.3g}" + (f" ± {estimate.error:.2g}" if estimate.error else "")


def write_rows(path: Path, rows: Sequence[Row], *, kernel: str, points: int, protocol: str) -> None:
    found = [{name: _plain(value) for name, value in asdict(row).items()} for row in rows]
    content = {"kernel": kernel, "points": points, "errors": protocol, "methods": found}
    path.write_text(json.dumps(content, indent=1) + "\n")


def _plain(value: object) -> object:
    return {"value": value[0], "error": value[1]} if isinstance(value, tuple) else value


def _protocol(error_points: int | None, X: Tensor) -> str:
    rows = f"Frobenius from {ERROR_ROWS} random rows, " if len(X) > ERROR_ROWS else "Frobenius, "
    return f"spectral{_points(error_points, X)}, {rows}trace of all points; ± standard error"


def _points(error_points: int | None, X: Tensor) -> str:
    return "" if error_points is None or error_points >= len(X) else f" on {error_points:,} random points"


def _folder(data: Path, output_dir: Path | None, method: str) -> Path | None:
    if output_dir is None and method != "all":
        return Path("out", data.resolve().name.partition(".")[0])
    return output_dir


def _factor_file(folder: Path, method: str) -> Path:
    return folder / f"{method}_factor.safetensors"


def _refuse_existing(folder: Path, methods: Sequence[str]) -> None:
    for file in (_factor_file(folder, method) for method in methods):
        if file.exists():
            raise ValueError(f"output_dir: {file} exists; choose another --output_dir, or give --overwrite.")
