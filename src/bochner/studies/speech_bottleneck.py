"""The effect of a linear bottleneck on the error rate, with the same optimizer with and without it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean
from types import MappingProxyType
from typing import Any

from bochner.report import Page
from bochner.studies import costs, speech_cells
from bochner.studies.findings import Rows, by, finding, per_set
from bochner.studies.results_file import Result
from bochner.studies.speech import task_setup
from bochner.studies.speech_cells import CE, DEPTH, ERLL, MAY, NETWORK, SHORT, TINY
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

KERNEL = "gaussian"
PLAIN, PRECONDITIONED = "plain SGD", "preconditioned SGD"
TRAININGS = {KERNEL: (PLAIN, PRECONDITIONED), NETWORK: (PLAIN,)}
HELDOUT = ("ce", "ent", "erll", "err")


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """One task, ranks (None is no bottleneck), and models: D features, and networks of four layers."""

    task: str
    ranks: tuple[int | None, ...]
    num_features: int
    widths: tuple[int, ...]
    max_epochs: int
    seeds: tuple[int, ...] = (0, 1, 2)
    recipe: Mapping[str, object] = field(default_factory=dict)


# The papers' Broadcast News has 50 hours and 5,000 states.
HOURS_14 = MappingProxyType(
    {
        "corpus.hours": 14.0, "corpus.minutes_per_speaker": 3.0, "alignment.num_leaves": 2500,
        "alignment.num_gaussians": 15000,
    }
)  # fmt: skip
TIMIT_LIKE = "synthetic timit-like"
SIZES: Mapping[Size, Sizes] = MappingProxyType(
    {
        "smoke": Sizes(
            task=TIMIT_LIKE, ranks=(None, 16), num_features=128, widths=(32,), max_epochs=2, seeds=(0,), recipe=TINY
        ),
        "small": Sizes(
            task=TIMIT_LIKE, ranks=(None, 100), num_features=1024, widths=(256,), max_epochs=15, recipe=SHORT
        ),
        "paper": Sizes(
            task="synthetic broadcast-like", ranks=(None, 250, 1000), num_features=100_000, widths=(1000, 2000),
            max_epochs=60, recipe=HOURS_14,
        ),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A model, "gaussian" or "network", with a rank or without; `num_features` is 0 for networks, `width` for kernels.

    Kernel models are trained by plain or by preconditioned SGD, networks as in the papers; whether there is a
    bottleneck does not change that.
    """

    data: str
    model: str
    training: str
    rank: int | None
    criterion: str
    num_features: int
    width: int
    effort: Size
    seed: int


def cells(size: Size) -> list[Cell]:
    """Ranks x {CE, ERLL} x trainings x seeds, of the kernel model and of networks.

    >>> len(cells("paper"))  # 36 kernel models, 36 networks
    72
    """
    sizes = SIZES[size]
    models = [(KERNEL, sizes.num_features, 0), *((NETWORK, 0, width) for width in sizes.widths)]
    return [
        Cell(sizes.task, model, training, rank, criterion, num_features, width, size, seed)
        for model, num_features, width in models
        for training, rank, criterion, seed in product(TRAININGS[model], sizes.ranks, (CE, ERLL), sizes.seeds)
    ]


def operations(cell: Cell) -> float:
    """Operations for training a model and decoding dev."""
    sizes = SIZES[cell.effort]
    hours = float(str(sizes.recipe["corpus.hours"]))
    outputs = cell.rank or int(str(sizes.recipe.get("alignment.num_leaves", speech_cells.NUM_STATES)))
    frames, d = 0.7 * hours * speech_cells.FRAMES_PER_HOUR, speech_cells.FRAME_INPUTS
    epochs = costs.STOPPED * sizes.max_epochs
    if cell.model == NETWORK:
        weights = d * cell.width + (DEPTH - 1) * cell.width**2 + cell.width * outputs
        return hours * speech_cells.DECODING + 6.0 * epochs * frames * weights
    return hours * speech_cells.DECODING + costs.training(frames, d, cell.num_features, outputs, epochs=epochs)


def prepare(context: Context) -> Callable[[Cell], Result]:
    setup = task_setup(context, lambda data, effort: SIZES[effort].recipe)

    def measure_cell(cell: Cell) -> Result:
        from bochner.studies.speech_training import measure_bottleneck  # needs the extra

        return measure_bottleneck(cell, setup(cell.data, cell.effort), max_epochs=SIZES[cell.effort].max_epochs)

    return measure_cell


def show(page: Page, rows: Sequence[Row]) -> None:
    lines: list[list[Any]] = []
    for (data, model, training, width, criterion, rank), group in _groups(rows).items():
        name = f"{DEPTH} x {width}" if model == NETWORK else f"{model}, D = {group[0]['num_features']:,}"
        means = [fmean(row[metric] for row in group) for metric in (*HELDOUT, "ter")]
        lines.append([data, name, training, rank or "none", criterion, *means[:-1], 100 * means[-1], len(group)])
    head = ["set", "model", "training", "rank", "criterion", "CE", "ENT", "ERLL", "ERR", "TER dev %", "seeds"]
    page.table(head, lines)


def _groups(rows: Rows) -> dict[tuple[object, ...], list[Row]]:
    return by(rows, "data", "model", "training", "width", "criterion", "rank")


def change(model: str, training: str) -> Callable[[Rows], float | None]:
    """The mean change of the error rate by a bottleneck, over widths, criteria and ranks."""

    def number(rows: Rows) -> float | None:
        means = {key: fmean(row["ter"] for row in group) for key, group in _groups(rows).items()}
        changes = [
            mean - means[(*key[:-1], None)]
            for key, mean in means.items()
            if key[1:3] == (model, training) and key[-1] is not None and (*key[:-1], None) in means
        ]
        return 100 * fmean(changes) if changes else None

    return number


PROTOCOL = (
    "Synthetic speech; results do not apply to recordings of people. Gaussian kernel, softmax regression on paired "
    "Fourier features, by plain SGD without averaging (rate halved after less than 1 % improvement, ten halvings) or "
    "by preconditioned SGD with averaging, both with and without a bottleneck; tanh networks of four layers with "
    "layer-wise pre-training, by plain SGD. The rate is halved by the heldout cross-entropy or by ERLL. TER is that "
    "of dev, at the decoding weights of lowest error."
)
_CHANGE = "change of TER in percentage points, mean over ranks and criteria"
# fmt: off
STUDIES = (
    Study("speech-bottleneck", "Bottlenecks with and without preconditioning", f"{MAY}, Tables 4 and 5", PROTOCOL,
          "speech_bottleneck", Cell, cells, prepare, show, operations=operations),
)
FINDINGS = tuple(
    finding(claim, f"{MAY}, Table {table}", "speech-bottleneck", per_set(change(model, training)), _CHANGE, below=0)
    for claim, table, model, training in (
        ("A linear bottleneck lowers the token error rate of kernel models, by plain SGD as in the paper.", 5,
         KERNEL, PLAIN),
        ("A linear bottleneck lowers the token error rate of kernel models, by preconditioned SGD.", 5,
         KERNEL, PRECONDITIONED),
        ("A linear bottleneck lowers the token error rate of networks, too.", 4, NETWORK, PLAIN),
    )
)
