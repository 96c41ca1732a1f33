"""Kernel models, networks and GMMs on six tasks, by two protocols and at equal budgets, with paired intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Any

from bochner import checks
from bochner.report import Cell as TableCell
from bochner.report import Page, format_number
from bochner.studies import costs, speech_cells
from bochner.studies.findings import Decision, Finding, Rows, over_sets
from bochner.studies.published_tables import published_table
from bochner.studies.results_file import Result
from bochner.studies.speech import task_setup
from bochner.studies.speech_cells import MAY, TINY
from bochner.studies.study import Row, Size, Study
from bochner.studies.workers import Context

KERNEL, NETWORK, GMM, BOTH = "kernel", "network", "gmm", "combination"
SYSTEMS = {NETWORK: "network", KERNEL: "kernel", BOTH: "both", GMM: "GMM"}
PROTOCOLS = ("modern", "papers")
CLOSE = 0.5  # percentage points of TER
# Recorded tasks: the recipe, and the file or directory of the corpus.
RECORDED = MappingProxyType(
    {
        "an4": ("an4", "an4_cepstra.zip"),
        "timit sample": ("timit-sample", "timit_nltk_sample.zip"),
        "timit": ("timit-papers", "TIMIT"),
    }
)
SYNTHETIC = tuple(f"synthetic {name}-like" for name in ("timit", "cantonese", "bengali", "broadcast"))


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Tasks, the models of the first candidates, and the CPU seconds of each side in the first draw of the corpus."""

    tasks: tuple[str, ...]
    num_features: tuple[int, ...]
    width: int
    rank: int
    rounds: int
    budget: float
    max_epochs: int
    network_epochs: int
    basis_epochs: int = 6
    precision: str = "float32"
    seeds: tuple[int, ...] = (0, 1, 2)
    recipe: Mapping[str, object] = field(default_factory=dict)


HALF_HOUR = MappingProxyType(
    {
        "corpus.hours": 0.5, "corpus.minutes_per_speaker": 0.5, "alignment.num_leaves": 400,
        "alignment.num_gaussians": 4000, "decoding.max_active": 1000,
    }
)  # fmt: skip
TWO_HOURS = MappingProxyType({"corpus.hours": 2.0, "alignment.start": "known", "decoding.max_active": 1000})
NEW_DRAWS = (1, 2, 3)  # methods were developed on speech of draw 0
SIZES: Mapping[Size, Sizes] = MappingProxyType(
    {
        "smoke": Sizes(
            tasks=SYNTHETIC[:1], num_features=(128,), width=32, rank=16, rounds=2, budget=1.0, max_epochs=2,
            network_epochs=2, basis_epochs=1, recipe=TINY,
        ),
        "small": Sizes(
            tasks=("an4", "timit sample", *SYNTHETIC), num_features=(2048,), width=256, rank=100, rounds=5,
            budget=150.0, max_epochs=12, network_epochs=15, recipe=HALF_HOUR, seeds=NEW_DRAWS,
        ),
        "paper": Sizes(
            tasks=("an4", "timit sample", "timit", *SYNTHETIC), num_features=(25_000, 100_000), width=1000, rank=250,
            rounds=20, budget=80.0, max_epochs=60, network_epochs=15, precision="tf32", recipe=TWO_HOURS,
        ),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """All systems of a task, trained by a protocol; each seed is that of a draw of the corpus, too."""

    data: str
    protocol: str
    effort: Size
    seeds: tuple[int, ...]


def cells(size: Size, *, protocols: Sequence[str] | None = None) -> list[Cell]:
    """
    >>> len(cells("paper"))  # seven tasks, TIMIT among them, and two protocols
    14
    """
    sizes = SIZES[size]
    protocols = PROTOCOLS if protocols is None else protocols
    for protocol in protocols:
        checks.one_of("protocols", protocol, PROTOCOLS)
    return [Cell(task, protocol, size, sizes.seeds) for protocol, task in product(protocols, sizes.tasks)]


def operations(cell: Cell) -> float:
    """The budgets of both sides for every draw, in seconds of a core or, at size paper, of a GPU; decoding."""
    sizes = SIZES[cell.effort]
    hours = float(str(sizes.recipe.get("corpus.hours", speech_cells.HOURS.get(cell.data, 1.0))))
    speed = costs.SPEEDS["cuda" if cell.effort == "paper" else "cpu"]
    return len(cell.seeds) * (2 * sizes.budget * speed + 4 * hours * speech_cells.DECODING)


def candidates(protocol: str, size: Size) -> dict[str, list[dict[str, Any]]]:
    """Settings of models, by kind, in the order in which they are tried until the budget is spent.

    >>> [len(settings) for settings in candidates("modern", "small").values()]
    [6, 7]
    """
    sizes = SIZES[size]
    tricks = {"rank": sizes.rank, "criterion": "erll:1"}
    if protocol == "papers":
        kernels, networks = _papers_candidates(sizes, tricks)
    else:
        kernels, networks = (_large_candidates if size == "paper" else _modern_candidates)(sizes, tricks)
    kernels = [{"max_epochs": sizes.max_epochs, "precision": sizes.precision, **settings} for settings in kernels]
    return {KERNEL: kernels, NETWORK: [{"precision": sizes.precision, **settings} for settings in networks]}


Candidates = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _papers_candidates(sizes: Sizes, tricks: Mapping[str, Any]) -> Candidates:
    kernels: list[dict[str, Any]] = [
        {"kernel": kernel, "num_features": count, **tricks}
        for count, kernel in product(sizes.num_features, ("laplacian", "gaussian", "sparse-gaussian"))
    ]
    kernels += [{**kernels[0], "selection": {"rounds": sizes.rounds}}, {**kernels[0], "rank": None}]
    plain, wide = {"hidden": (sizes.width,) * 4}, {"hidden": (2 * sizes.width,) * 4}
    networks = [{**plain, **tricks}, {**wide, **tricks}, wide]
    return kernels, [{**settings, "max_epochs": sizes.max_epochs} for settings in networks]


def _modern_candidates(sizes: Sizes, tricks: Mapping[str, Any]) -> Candidates:
    """Different models first, since they are averaged: of kernels, and of networks with and without time delays."""
    basis = {"adapt": "dab", "max_epochs": sizes.basis_epochs}  # an epoch takes longer, and fewer suffice
    kernels: list[dict[str, Any]] = []
    for count in sizes.num_features:
        kernels += [
            {"kernel": "gaussian", "num_features": count, **basis},
            {"kernel": "gaussian", "num_features": count, "adapt": "agop", **tricks},
            {"kernel": "laplacian", "num_features": count, **tricks},
            {"kernel": "sparse-gaussian", "num_features": count, **tricks},
            {"kernel": "gaussian", "num_features": count, **basis, "dilations": "auto", "dropout": 0.3},
            {"kernel": "laplacian", "num_features": count, "selection": {"rounds": sizes.rounds}, **tricks},
        ]
    plain, wide = {"hidden": (sizes.width,) * 4}, {"hidden": (2 * sizes.width,) * 4}
    networks: list[dict[str, Any]] = [
        {**plain, "dilations": "auto"},
        plain,
        {**plain, "dilations": "auto", "dropout": 0.4},
        {**plain, "dropout": 0.1},
        wide,
        {**wide, "dilations": "auto"},
        {"hidden": (sizes.width,) * 6, "activation": "gelu"},
    ]
    return kernels, [{**settings, "max_epochs": sizes.network_epochs} for settings in networks]


def _large_candidates(sizes: Sizes, tricks: Mapping[str, Any]) -> Candidates:
    """With hours of speech and a GPU: order, epochs and dropout were chosen on heldout frames of timit-like."""
    few, many = sizes.num_features
    basis = {"kernel": "gaussian", "adapt": "dab", "max_epochs": sizes.basis_epochs}
    kernels: list[dict[str, Any]] = [
        {**basis, "num_features": few},
        {**basis, "num_features": few, "rank": sizes.rank},
        {**basis, "num_features": many, "rank": sizes.rank},
        {**basis, "num_features": few, "dropout": 0.8, "max_epochs": 2 * sizes.basis_epochs},
        {"kernel": "gaussian", "num_features": many, "adapt": "agop", **tricks},
        {"kernel": "laplacian", "num_features": many, **tricks},
    ]
    plain = {"hidden": (sizes.width,) * 4, "max_epochs": sizes.network_epochs}
    networks = [
        {**plain, "dilations": "auto", "dropout": 0.4},
        {**plain, "dropout": 0.4},
        {**plain, "dilations": "auto"},
        {**plain, "hidden": (2 * sizes.width,) * 4, "dilations": "auto", "dropout": 0.4},
        {**plain, "hidden": (2 * sizes.width,) * 4, "dropout": 0.4},
        {**plain, "hidden": (sizes.width,) * 6, "activation": "gelu", "dropout": 0.4},
    ]
    return kernels, networks


def overrides_of(data: str, effort: Size, draw: int, context: Context) -> dict[str, object]:
    """Overrides of the recipe of a task: the draw of the corpus, and the source or the hours of speech.

    The draw of synthetic speech determines voices and sentences; that of TIMIT's sample, the speakers of all parts;
    that of AN4 and of all of TIMIT, whose test parts are official, the speakers of heldout.
    """
    if data in RECORDED:
        return {"corpus.seed": draw, "corpus.source": str((context.data_dir / RECORDED[data][1]).resolve())}
    return {"corpus.seed": draw, **SIZES[effort].recipe}


def prepare(context: Context) -> Callable[[Cell], Result]:
    setup = task_setup(context, lambda data, effort, draw: overrides_of(data, effort, draw, context))

    def measure_cell(cell: Cell) -> Result:
        from bochner.studies.speech_training import measure_systems  # needs the extra

        models, budget = candidates(cell.protocol, cell.effort), SIZES[cell.effort].budget
        return measure_systems(cell, lambda draw: setup(cell.data, cell.effort, draw), models, budget=budget)

    return measure_cell


# -- tables ----------------------------------------------------------------------------------------------------


def show(page: Page, rows: Sequence[Row]) -> None:
    """Test errors of the systems, and the difference between each and the network with its interval."""
    lines: list[list[TableCell]] = []
    for row in rows:
        systems = [_system(row["systems"].get(name)) for name in SYSTEMS]
        behind = [_difference(row["differences"].get(name)) for name in SYSTEMS if name != NETWORK]
        lines.append([row["data"], row["protocol"], row["test_tokens"], *systems, *behind])
    others = [f"{name} minus network" for kind, name in SYSTEMS.items() if kind != NETWORK]
    page.table(["task", "protocol", "test tokens", *(f"{name}, TER %" for name in SYSTEMS.values()), *others], lines)
    for row in rows:
        spent = ", ".join(
            f"{SYSTEMS[name]}: {system['model']} of {system['tried']}, {system['seconds']:.0f} s"
            for name, system in row["systems"].items()
            if "tried" in system
        )
        page.note(f"{row['data']}, {row['protocol']}: {spent}.")
    page.note("JMLR, Table 8: TER on TIMIT's core test, in percent, of models with the same features and labels.")
    page.table(
        ["", "network", "kernel"],
        [[line["work"], line["network"] or "-", line["kernel"]] for line in published_table("speech_timit")],
    )


def _system(system: Mapping[str, Any] | None) -> str:
    if system is None:
        return "-"
    text = format_number(100 * system["test_ter"])
    return text + (f" ± {100 * system['spread']:.2f}" if system["seeds"] > 1 else "")


def _difference(difference: Sequence[float] | None) -> str:
    if difference is None:
        return "-"
    value, low, high = (100 * number for number in difference)
    return f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"


# -- findings --------------------------------------------------------------------------------------------------


def kernel_behind(protocol: str) -> Callable[[Rows], Decision | None]:
    """The error of the kernel model minus that of the network, with the paired interval of the test part."""

    def criterion(rows: Rows) -> Decision | None:
        differences = {row["data"]: row["differences"][KERNEL] for row in rows if row["protocol"] == protocol}
        values = {name: 100 * numbers[0] for name, numbers in differences.items()}
        ends = {name: (100 * numbers[1], 100 * numbers[2]) for name, numbers in differences.items()}
        return over_sets(values, "TER on test, kernel minus network, percentage points", ends, below=CLOSE)

    return criterion


PROTOCOL = (
    "Protocol papers: plain SGD, halved after less than 1 % improvement, ten halvings, no averaging, pre-trained tanh "
    "networks. Protocol modern: kernel models with adapted bases, trained with dropout and one cycle of AdamW, or with "
    "learned metrics, preconditioned and averaged; networks with batch normalisation, dropout, shortcuts and one cycle "
    "of AdamW, fully connected or with time delays. The corpus is drawn anew for each seed: other voices and sentences "
    "of synthetic speech, other speakers in the parts of TIMIT's sample, other heldout speakers of AN4. In the first "
    "draw each side trains models in a fixed order until its CPU seconds exceed the budget (on a GPU: seconds), which "
    "is the same for both; then the side that has taken less goes on while another model of its average time brings "
    "both closer. By protocol modern all models of a side are averaged, without a choice. By protocol papers one of "
    "them is chosen: of those whose error on dev is not significantly above the lowest (paired bootstrap), the one "
    "with the lowest frame error on heldout. In the other draws the same models are trained. Errors are those of all "
    "draws together, ± the standard deviation between draws; 95 % intervals of differences are by the paired bootstrap "
    "over speakers, or over utterances if there are fewer than ten speakers. Results on synthetic speech "
    "do not apply to recordings of people."
)
# fmt: off
STUDIES = (
    Study("speech-tasks", "Kernel models, networks and GMMs at equal budgets", f"{MAY}, Tables 7 and 8", PROTOCOL,
          "speech_tasks", Cell, cells, prepare, show, {name: file for name, (_, file) in RECORDED.items()},
          options=("protocols",), operations=operations),
)
FINDINGS = tuple(
    Finding(claim, f"{MAY}, Table 7", "speech-tasks", kernel_behind(protocol), exact=True)  # has its own intervals
    for claim, protocol in (
        ("At equal budgets kernel models are as good as networks, both trained as in the papers.", "papers"),
        ("At equal budgets kernel models are as good as networks, both with current methods.", "modern"),
    )
)
