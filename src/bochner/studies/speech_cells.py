"""The acoustic models of the speech studies: sizes, cells and the heldout metrics that are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType

from bochner.acoustic.settings import KERNELS
from bochner.studies import costs
from bochner.studies.study import Size

MAY = "May et al. 2019"
NETWORK = "network"
DEPTH = 4
# Heldout metrics in the tables, and those whose correlation with the token error rate is measured.
HELDOUT = ("ce", "ent", "erll", "err")
PERPLEXITIES = ("perplexity", "perplexity_silence_collapsed")
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
LAMBDAS = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)
FRACTIONS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
METRICS = [f"erll:{x:g}" for x in BETAS] + [f"capped:{x:g}" for x in LAMBDAS] + [f"topk:{x:g}" for x in FRACTIONS]

CE, ERLL = "ce", "erll:1"
PLAIN, BOTTLENECK, DRIVEN, BOTH = (False, CE), (True, CE), (False, ERLL), (True, ERLL)
Tricks = tuple[bool, str]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Which tasks and models are measured.

    The ablations have `num_features`, `widths` and 4 layers; other studies vary them over `features` and `depths`.
    `tricks` are pairs of (bottleneck, criterion). `recipe` changes the recipe of every task.
    """

    tasks: tuple[str, ...]
    num_features: int
    features: tuple[int, ...]
    rank: int
    rounds: int
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    max_epochs: int
    seeds: tuple[int, ...] = (0,)
    tricks: tuple[Tricks, ...] = (PLAIN, BOTTLENECK, DRIVEN, BOTH)
    many: tuple[tuple[str, bool], ...] = tuple((k, s) for k in ("laplacian", "sparse-gaussian") for s in (False, True))
    recipe: Mapping[str, object] = field(default_factory=dict)


TINY = MappingProxyType(
    {
        "corpus.hours": 0.03, "corpus.minutes_per_speaker": 0.15, "corpus.num_words": 200, "corpus.telephone": 0,
        "corpus.babble": 0, "corpus.snr": [20, 30], "frontend.context": 2, "alignment.until": "monophone",
        "alignment.start": "known", "decoding.beam": 8.0, "decoding.max_active": 500,
    }
)  # fmt: skip
SHORT = MappingProxyType(
    {"corpus.hours": 0.2, "corpus.minutes_per_speaker": 0.5, "alignment.num_leaves": 200}  # those of timit-demo
)
SIZES: Mapping[Size, Sizes] = MappingProxyType(
    {
        "smoke": Sizes(
            tasks=("synthetic timit-like",), num_features=256, features=(32, 256), rank=32, rounds=3, widths=(64,),
            depths=(3, 4, 5), max_epochs=3, tricks=(PLAIN, BOTTLENECK, BOTH), many=(("laplacian", False),), recipe=TINY,
        ),
        "small": Sizes(
            tasks=("synthetic timit-like",), num_features=1024, features=(256, 512, 1024), rank=100, rounds=5,
            widths=(256,), depths=(3, 4, 5), max_epochs=15, tricks=(PLAIN, BOTTLENECK, BOTH),
            many=(("laplacian", False),), seeds=(0, 1, 2), recipe=SHORT,
        ),
        "paper": Sizes(
            tasks=("synthetic timit-like", "synthetic cantonese-like", "synthetic bengali-like",
                   "synthetic broadcast-like"), num_features=8192,
            features=(2048, 4096, 8192, 16384, 32768), rank=100, rounds=50, widths=(256, 512, 1024),
            depths=(3, 4, 5, 6), max_epochs=60, seeds=(0, 1, 2),
        ),
    }
)  # fmt: skip


# For time estimates: hours of speech of the recipes, and the operations to decode dev per hour.
HOURS = MappingProxyType({"synthetic broadcast-like": 4.0})
FRAMES_PER_HOUR, FRAME_INPUTS, NUM_STATES, DECODING = 360_000, 429, 300, 3e12


@dataclass(frozen=True)
class Cell:
    """A model with a seed on a task, at the effort of a size.

    `criterion`, "ce" or "erll:1", halves the rate. `num_features` is 0 for networks, `width` and `depth` are 0 for
    kernels. `data` names the synthetic speech and its recipe.
    """

    data: str
    model: str
    selection: bool
    bottleneck: bool
    criterion: str
    num_features: int
    width: int
    depth: int
    effort: Size
    seed: int


@dataclass(frozen=True)
class BestCell:
    """The model of a kind, "kernel" or "network", that is best on dev over some seeds; only this model is tested."""

    data: str
    kind: str
    effort: Size
    seeds: tuple[int, ...]


def operations(cell: Cell) -> float:
    """Operations for training a model and decoding dev, without the preparation of the corpus, which the first cell
    includes."""
    sizes = SIZES[cell.effort]
    hours = float(str(sizes.recipe.get("corpus.hours", HOURS.get(cell.data, 1.0))))
    frames, outputs = 0.7 * hours * FRAMES_PER_HOUR, sizes.rank if cell.bottleneck else NUM_STATES
    if cell.model == NETWORK:
        weights = FRAME_INPUTS * cell.width + (cell.depth - 1) * cell.width**2 + cell.width * outputs
        return hours * DECODING + 6.0 * costs.STOPPED * sizes.max_epochs * frames * weights
    rounds = sizes.rounds if cell.selection else 0
    epochs = costs.STOPPED * sizes.max_epochs + rounds
    return hours * DECODING + costs.training(frames, FRAME_INPUTS, cell.num_features, outputs, epochs=epochs)


def best_operations(cell: BestCell) -> float:
    """Operations for the ablation of a kind; cached models cost nothing."""
    cells = [model for model in all_cells(cell.effort) if model.data == cell.data and model.seed in cell.seeds]
    return sum(operations(model) for model in cells if (model.model == NETWORK) == (cell.kind == NETWORK))


def kernel_cells(size: Size) -> list[Cell]:
    """Kernel x selection x bottleneck x ERLL.

    >>> len(kernel_cells("small"))
    54
    """
    sizes = SIZES[size]
    return [
        _kernel(task, kernel, selection, tricks, sizes.num_features, size, seed)
        for task, kernel, selection, tricks, seed in product(
            sizes.tasks, KERNELS, (False, True), sizes.tricks, sizes.seeds
        )
    ]


def network_cells(size: Size) -> list[Cell]:
    """Widths x bottleneck x ERLL, of four layers."""
    sizes = SIZES[size]
    return [
        _network(task, width, DEPTH, tricks, size, seed)
        for task, width, tricks, seed in product(sizes.tasks, sizes.widths, sizes.tricks, sizes.seeds)
    ]


def all_cells(size: Size) -> list[Cell]:
    """Both ablations."""
    return kernel_cells(size) + network_cells(size)


def feature_cells(size: Size) -> list[Cell]:
    """Kernel models with a bottleneck, by ERLL, of few and of many features."""
    sizes = SIZES[size]
    return [
        _kernel(task, kernel, selection, BOTH, count, size, seed)
        for task, (kernel, selection), count, seed in product(sizes.tasks, sizes.many, sizes.features, sizes.seeds)
    ]


def depth_cells(size: Size) -> list[Cell]:
    """Networks with a bottleneck, by ERLL, of many depths and widths."""
    sizes = SIZES[size]
    return [
        _network(task, width, depth, BOTH, size, seed)
        for task, width, depth, seed in product(sizes.tasks, sizes.widths, sizes.depths, sizes.seeds)
    ]


def perplexity_cells(size: Size) -> list[Cell]:
    """The Laplacian kernel with selected features, and networks of the largest width."""
    sizes = SIZES[size]
    kernels = [cell for cell in kernel_cells(size) if cell.model == "laplacian" and cell.selection]
    networks = [cell for cell in network_cells(size) if cell.width == max(sizes.widths)]
    return [cell for cell in kernels + networks if (cell.bottleneck, cell.criterion) == BOTH]


def best_cells(size: Size) -> list[BestCell]:
    """The best of each kind."""
    sizes = SIZES[size]
    return [BestCell(task, kind, size, sizes.seeds) for task in sizes.tasks for kind in ("kernel", NETWORK)]


def _kernel(task: str, kernel: str, selection: bool, tricks: Tricks, count: int, size: Size, seed: int) -> Cell:
    return Cell(task, kernel, selection, *tricks, count, 0, 0, size, seed)


def _network(task: str, width: int, depth: int, tricks: Tricks, size: Size, seed: int) -> Cell:
    return Cell(task, NETWORK, False, *tricks, 0, width, depth, size, seed)
