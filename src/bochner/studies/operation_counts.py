"""Costs in the papers' tables compared with operations counted while the methods run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from bochner.features import FeatureMap, FourierMap, NystromMap
from bochner.kernels import Gaussian
from bochner.lowrank import fit_factor, fit_meka
from bochner.lowrank.errors import EXACT_POINTS
from bochner.report import Page
from bochner.studies import costs
from bochner.studies.findings import Decision, Finding, Rows, by
from bochner.studies.results_file import Result
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

# Operations for an n x n matrix, divided by n^3, or for [m, n], divided by m n^2, as in Golub and Van Loan.
FACTORISATIONS = MappingProxyType(
    {"linalg_cholesky_ex": 1 / 3, "linalg_eigh": 9.0, "_linalg_eigh": 9.0, "_linalg_svd": 14.0, "linalg_qr": 4.0}
)
TRIANGULAR = ("linalg_solve_triangular", "triangular_solve", "cholesky_solve")


class CountOperations(TorchDispatchMode):
    """Counts floating-point operations: products, factorisations, and one per number in the result of other operations.

    Views count as 0.

    >>> A = torch.ones(10, 20)
    >>> with CountOperations() as counter:
    ...     _ = (A @ A.T).exp()
    >>> counter.count  # 2 * 10 * 20 * 10, and 100 exponentials
    4100.0
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket._qualified_op_name.removeprefix("aten::")
        if func.overloadpacket in flop_registry:
            self.count += float(flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=out))
        elif name in FACTORISATIONS:
            *batch, rows, columns = args[0].shape
            self.count += FACTORISATIONS[name] * math.prod(batch) * rows * columns * min(rows, columns)
        elif name in TRIANGULAR:
            self.count += float(args[0].numel()) * args[1].shape[-1]
        elif not func.is_view:
            tensors = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
            self.count += sum(float(tensor.numel()) for tensor in tensors if tensor.is_floating_point())
        return out


@dataclass(frozen=True)
class Cell:
    """A method on N points with d inputs; D features or rank, and m landmarks where there are any."""

    table: str
    method: str
    N: int
    d: int
    D: int
    m: int
    seed: int = 0


Formula = Callable[[Cell], float]
TABLE_23, TABLE_31 = "May 2.3", "Bhardwaj 3.1"
SAMPLES = 8  # |Omega| of ALS is this times r n
CLUSTERS = 4
# Leading terms of the tables, in time and in stored numbers.
TIME: Mapping[str, Formula] = MappingProxyType(
    {
        "nystrom": lambda c: c.m**2 * c.D + c.N * c.m * c.d + c.N * c.m * c.D,
        "rff": lambda c: c.N * c.D * c.d,
        "structured rff": lambda c: c.N * c.D * math.log2(c.d),
        "low-rank nystrom": lambda c: c.m**3 + c.N * c.m * c.D,
        "svd": lambda c: c.N**2 * c.D,
        "als": lambda c: SAMPLES * c.D * c.N * c.D**2 + c.N * c.D**3,
        "meka": lambda c: c.N * c.D**2 + CLUSTERS * c.m**3,
    }
)
MEMORY: Mapping[str, Formula] = MappingProxyType(
    {
        "nystrom": lambda c: c.m * c.d + c.m * c.D,
        "rff": lambda c: c.D * c.d,
        "structured rff": lambda c: c.D,
        "low-rank nystrom": lambda c: c.N * c.D,
        "svd": lambda c: c.N * c.D,
        "als": lambda c: c.N * c.D,
        "meka": lambda c: c.N * c.D / CLUSTERS + c.D**2,
    }
)
VARIED = {"nystrom": "NdDm", "rff": "NdD", "structured rff": "NdD"} | dict.fromkeys(
    ("low-rank nystrom", "svd", "als", "meka"), "ND"
)


def cells(size: Size) -> list[Cell]:
    """Each method once, and again with each symbol of its cost doubled."""
    scale = {"smoke": 1, "small": 2, "paper": 4}[size]
    bases = [Cell(TABLE_23, "nystrom", 10_000 * scale, 256, 64, 128)]
    bases += [Cell(TABLE_23, name, 5_000 * scale, 256, 1_024, 0) for name in ("rff", "structured rff")]
    bases += [Cell(TABLE_31, name, 1_000 * scale, 8, 32, 128) for name in ("low-rank nystrom", "als", "meka")]
    bases += [Cell(TABLE_31, "svd", EXACT_POINTS + 100 * scale, 8, 32, 128)]  # fewer points for all eigenvalues
    return [
        cell
        for base in bases
        for cell in (base, *(replace(base, **_doubled(base, letter)) for letter in VARIED[base.method]))
    ]


def _doubled(cell: Cell, letter: str) -> dict[str, Any]:
    """Low-rank methods have four landmarks per column."""
    changes = {letter: 2 * getattr(cell, letter)}
    return changes | ({"m": 2 * cell.m} if letter == "D" and cell.table == TABLE_31 else {})


def measure(cell: Cell) -> Result:
    """Operations and stored numbers of one method on standard normal points."""
    generator = Generator().manual_seed(cell.seed)
    X = torch.randn(cell.N, cell.d, generator=generator)
    kernel = Gaussian(bandwidth=math.sqrt(cell.d))
    with CountOperations() as counter, torch.no_grad():
        if cell.table == TABLE_23:
            z = _feature_map(cell, kernel, X, generator)
            z(X)
            stored = sum(tensor.numel() for tensor in (*z.parameters(), *z.buffers()))
        else:
            stored = _factor_numbers(cell, kernel, X, generator)
    result = {"operations": counter.count, "stored": stored}
    return {**result, "time_formula": TIME[cell.method](cell), "memory_formula": MEMORY[cell.method](cell)}


def _feature_map(cell: Cell, kernel: Gaussian, X: Tensor, generator: Generator) -> FeatureMap:
    if cell.method == "nystrom":
        return NystromMap.fit(kernel, X, num_landmarks=cell.m, num_features=cell.D, generator=generator)
    projection = "iid" if cell.method == "rff" else "hadamard1"
    return FourierMap.draw(
        kernel, num_inputs=cell.d, num_features=cell.D, projection=projection, form="cosine", generator=generator
    )


def _factor_numbers(cell: Cell, kernel: Gaussian, X: Tensor, generator: Generator) -> int:
    by_method: dict[str, dict[str, Any]] = {
        "low-rank nystrom": {"num_landmarks": cell.m, "landmarks": "uniform"},
        "als": {"num_samples": SAMPLES * cell.D * cell.N, "rounds": 3},
        "meka": {"num_clusters": CLUSTERS},
    }
    options = by_method.get(cell.method, {})
    if cell.method == "meka":
        return fit_meka(kernel, X, rank=cell.D, generator=generator, **options).num_parameters
    method = cell.method.removeprefix("low-rank ")
    return fit_factor(method, kernel, X, rank=cell.D, generator=generator, **options).num_parameters


def prepare(context: Context) -> Callable[[Cell], Result]:
    return measure


def growths(rows: Rows, table: str, count: str, formula: str) -> dict[str, float]:
    """By method and doubled symbol, the growth of a count divided by that of its formula."""
    ratios = {}
    for (method,), group in by([row for row in rows if row["table"] == table], "method").items():
        base = min(group, key=lambda row: (row["N"], row["d"], row["D"], row["m"]))
        for row in group:
            letters = [name for name in "NdDm" if row[name] != base[name]]
            if letters:
                name = f"{method}, 2 {letters[0]}"
                ratios[name] = row[count] / base[count] / (row[formula] / base[formula])
    return ratios


def show(page: Page, rows: Sequence[Row]) -> None:
    names = ("table", "method", "N", "d", "D", "m", "operations", "stored")
    lines = [
        [*(row[name] for name in names), row["operations"] / row["time_formula"], row["stored"] / row["memory_formula"]]
        for row in rows
    ]
    page.table(["table", "method", "N", "d", "D or r", "m", *names[6:], "over the formula", "over the formula"], lines)


def _at_most(table: str, count: str, formula: str) -> Callable[[Rows], Decision | None]:
    def criterion(rows: Rows) -> Decision | None:
        ratios = growths(rows, table, count, formula)
        if not ratios:
            return None
        worst = max(ratios, key=lambda name: ratios[name])
        text = f"largest growth over the formula's {ratios[worst]:.2f} ({worst}), of {len(ratios)} doublings"
        return Decision(ratios[worst] < MARGIN, text)

    return criterion


MARGIN = 1.3  # lower-order terms of small problems
PROTOCOL = (
    "Operations are counted while a method runs on standard normal points: 2 m n k for products, textbook counts for "
    "factorisations, one per number in the result of any other operation. Every size in a formula is doubled in "
    "turn, and the growth of the count is compared with that of the leading terms. ALS has 8 r n samples, MEKA 4 "
    "clusters of rank r / 4. k-means and index arithmetic on integers are not counted."
)
# fmt: off
STUDIES = (
    Study("operation-counts", "Operations and memory by the tables' formulas",
          "May 2018, Table 2.3; Bhardwaj 2015, Table 3.1", PROTOCOL, "operation_counts", Cell, cells, prepare, show,
          operations=lambda cell: costs.CELL + 20 * TIME[cell.method](cell)),
)
FINDINGS = tuple(
    Finding(claim, source, "operation-counts", _at_most(table, count, formula), exact=True)
    for claim, source, table, count, formula in (
        ("Features cost no more than N D d, N D log d, and m^2 D + N m d + N m D operations.", "May 2018, Table 2.3",
         TABLE_23, "operations", "time_formula"),
        ("Maps store no more than D d, D, and m d + m D numbers.", "May 2018, Table 2.3",
         TABLE_23, "stored", "memory_formula"),
        ("Low-rank methods cost no more than the operations of the table.", "Bhardwaj 2015, Table 3.1",
         TABLE_31, "operations", "time_formula"),
        ("Their factors store no more than n r numbers, MEKA's c^2 more for its links.", "Bhardwaj 2015, Table 3.1",
         TABLE_31, "stored", "memory_formula"),
    )
)
