"""Training, measuring and decoding the acoustic models of the speech studies; needs the extra `synthesis`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

from bochner.acoustic.experiment import ACOUSTIC, Experiment, run_stage, setup
from bochner.acoustic.model import MODULE
from bochner.acoustic.recipe import AsrRecipe, load_recipe
from bochner.acoustic.results import Row
from bochner.acoustic.settings import PROTOCOLS, KernelSettings, ModelSettings, NetworkSettings
from bochner.acoustic.training import tune_bandwidth
from bochner.models.losses import Criterion
from bochner.search import SelectionParams
from bochner.solvers.step import evaluate
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
    return load_recipe(data.removeprefix(SYNTHETIC), overrides=dict(SIZES[effort].recipe))


def set_up_task(data: str, effort: Size, directory: Path, *, device: str) -> Experiment:
    """The task with its corpus, alignment and graph, which are computed below `directory` unless they are there."""
    return setup(recipe_of(data, effort), directory, device=device)


def settings_of(cell: Cell, experiment: Experiment) -> ModelSettings:
    """The settings of a cell's model; the others are the defaults of recipes."""
    sizes = SIZES[cell.effort]
    if cell.model == NETWORK:
        shared = {**PROTOCOLS["papers"]["network"], **_shared(cell, sizes)}  # their networks, trained as they did
        return NetworkSettings(hidden=(cell.width,) * cell.depth, **shared)
    selection = SelectionParams(rounds=sizes.rounds) if cell.selection else None
    return KernelSettings(
        kernel=cell.model,
        num_features=cell.num_features,
        bandwidth=tuned(cell, experiment)["bandwidth"],
        selection=selection,
        **_shared(cell, sizes),
    )


def tuned(cell: Cell, experiment: Experiment) -> dict[str, Any]:
    """The bandwidth that a model of the ablation would choose on heldout, searched once, and the values tried."""
    settings = KernelSettings(kernel=cell.model, num_features=SIZES[cell.effort].num_features)

    def make(_: object) -> dict[str, Any]:
        num_states, device = experiment.aligned.num_states, experiment.device
        data = (experiment.train_rows, experiment.heldout_rows)
        return tune_bandwidth(settings, *data, num_states=num_states, seed=cell.seed, device=device)

    name, inputs = f"{cell.model} seed {cell.seed}", {"model": asdict(settings), "seed": cell.seed}
    inputs["context"] = experiment.recipe.frontend.context
    return run_stage(experiment.root, "bandwidth", name, inputs, make, after=[experiment.alignment]).result


def _shared(cell: Cell, sizes: Sizes) -> dict[str, Any]:
    return {
        "rank": sizes.rank if cell.bottleneck else None,
        "criterion": cell.criterion,
        "max_epochs": sizes.max_epochs,
    }


def measure(cell: Cell, experiment: Experiment) -> Result:
    """Train, measure on heldout frames, decode dev."""
    row = experiment.train(settings_of(cell, experiment), cell.seed)
    return {
        **{name: row.heldout[name] for name in HELDOUT},
        "ter": row.dev["ter"],
        "metrics": metrics_of(row, experiment),
        "num_states": experiment.aligned.num_states,
        "seconds": row.seconds,
    }


def metrics_of(row: Row, experiment: Experiment) -> dict[str, float]:
    """The heldout metrics that a schedule could watch, by name."""
    module = load(experiment.root / row.directory / ACOUSTIC / MODULE, device=experiment.device)
    scores = evaluate(module, experiment.heldout_rows, loss="softmax")
    return {name: Criterion.parse(name).of(scores) for name in METRICS}


def measure_best(cell: BestCell, experiment: Experiment) -> Result:
    """The least value of each metric over the ablation's models of the kind, as in the papers' table of the best.

    The model of least error on dev alone reads test. Values are means over seeds.
    """
    rows = [experiment.train(settings_of(model, experiment), model.seed) for model in _ablation(cell)]
    chosen = [experiment.test(row) for row in experiment.results(rows).chosen(cell.kind)]
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
