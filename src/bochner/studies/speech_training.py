"""Training, measuring and decoding the acoustic models of the speech studies; needs the extra `synthesis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from bochner.acoustic.contest import ACOUSTIC, Contest
from bochner.acoustic.model import MODULE
from bochner.acoustic.opening import open_contest
from bochner.acoustic.recipe import AsrRecipe, load_recipe
from bochner.acoustic.results import Row
from bochner.acoustic.run import results_of
from bochner.acoustic.settings import KernelSettings, ModelSettings, NetworkSettings, SelectionSettings
from bochner.acoustic.stages import Found
from bochner.acoustic.training import tune_bandwidth
from bochner.models.criteria import Criterion
from bochner.solvers.step import evaluate
from bochner.speech.pipeline.alignment import Execution
from bochner.storage import load
from bochner.studies.results_file import Result
from bochner.studies.speech_cells import HELDOUT, METRICS, NETWORK, SIZES, BestCell, Cell, Sizes, all_cells
from bochner.studies.study import Size, with_seeds

SYNTHETIC = "synthetic "


def recipe_of(data: str, effort: Size) -> AsrRecipe:
    """The recipe of a task; studies train models of their own.

    >>> recipe = recipe_of("synthetic timit-like", "small")
    >>> recipe.name, recipe.corpus.hours
    ('timit-like', 0.2)
    """
    return load_recipe(data.removeprefix(SYNTHETIC), changes=dict(SIZES[effort].recipe))


def set_up_task(data: str, effort: Size, directory: Path, *, device: str) -> Contest:
    """The task with its corpus, alignment and graph, which are computed below `directory` unless they are there."""
    return open_contest(recipe_of(data, effort), directory, device=device, work=Execution())


def settings_of(cell: Cell, experiment: Contest) -> ModelSettings:
    """The settings of a cell's model; the others are the defaults of recipes."""
    sizes = SIZES[cell.effort]
    if cell.model == NETWORK:
        return NetworkSettings(hidden=(cell.width,) * cell.depth, **_shared(cell, sizes))
    selection = SelectionSettings(rounds=sizes.rounds) if cell.selection else None
    return KernelSettings(
        kernel=cell.model,  # type: ignore[arg-type]
        num_features=cell.num_features,
        bandwidth=tuned(cell, experiment)["bandwidth"],
        selection=selection,
        **_shared(cell, sizes),
    )


def tuned(cell: Cell, experiment: Contest) -> dict[str, Any]:
    """The bandwidth that a model of the ablation would choose on heldout, searched once, and the values tried."""
    settings = KernelSettings(kernel=cell.model, num_features=SIZES[cell.effort].num_features)  # type: ignore[arg-type]

    def make(_: object) -> Found:
        num_states, device = experiment.aligned.num_states, experiment.device
        data = (experiment.train, experiment.heldout)
        return tune_bandwidth(settings, *data, num_states=num_states, seed=cell.seed, device=device)

    name, inputs = f"{cell.model} seed {cell.seed}", {"model": asdict(settings), "seed": cell.seed}
    inputs["context"] = experiment.recipe.frontend.context
    return experiment.stages.run("bandwidth", name, inputs, after=[experiment.alignment], make=make).found


def _shared(cell: Cell, sizes: Sizes) -> dict[str, Any]:
    return {
        "rank": sizes.rank if cell.bottleneck else None,
        "criterion": cell.criterion,
        "max_epochs": sizes.max_epochs,
    }


def measure(cell: Cell, experiment: Contest) -> Result:
    """Train, measure on heldout frames, decode dev."""
    row = experiment.model(settings_of(cell, experiment), cell.seed)
    return {
        **{name: row.heldout[name] for name in HELDOUT},
        "ter": row.dev["ter"],
        "metrics": metrics_of(row, experiment),
        "num_states": experiment.aligned.num_states,
        "seconds": row.seconds,
    }


def metrics_of(row: Row, experiment: Contest) -> dict[str, float]:
    """The heldout metrics that a schedule could watch, by name."""
    module = load(experiment.stages.root / row.folder / ACOUSTIC / MODULE, device=experiment.device)
    scores = evaluate(module, experiment.heldout, loss="softmax")
    return {name: Criterion.parse(name).of(scores) for name in METRICS}


def measure_best(cell: BestCell, experiment: Contest) -> Result:
    """The least value of each metric over the ablation's models of the kind, as in the papers' table of the best.

    The model of least error on dev alone reads test. Values are means over seeds.
    """
    rows = [experiment.model(settings_of(model, experiment), model.seed) for model in _ablation(cell)]
    chosen = [
        experiment.tested(row) for row in results_of(experiment.recipe, experiment.aligned, rows).chosen(cell.kind)
    ]
    tested = [row.test for row in chosen if row.test]
    return {name: _least(rows, lambda row, name=name: row.heldout[name]) for name in HELDOUT} | {
        "ter": _least(rows, lambda row: row.dev["ter"]),
        "test_ter": fmean(test["ter"] for test in tested),
        "tokens": tested[0]["tokens"],
        "model": chosen[0].model,
        "models": len({row.model for row in rows}),
    }


def _ablation(cell: BestCell) -> list[Cell]:
    cells = [model for model in all_cells(cell.effort) if model.data == cell.data]
    return with_seeds([model for model in cells if (model.model == NETWORK) == (cell.kind == NETWORK)], cell.seeds)


def _least(rows: Sequence[Row], value: Callable[..., float]) -> float:
    """The least over models of the mean over seeds."""
    by_model: dict[str, list[float]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(value(row))
    return min(map(fmean, by_model.values()))
