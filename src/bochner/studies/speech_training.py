"""Training, measuring and decoding the acoustic models of the speech studies; needs the extra `synthesis`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from bochner.acoustic.decoding import MIN_SPEAKERS
from bochner.acoustic.experiment import ACOUSTIC, Experiment, run_stage, setup
from bochner.acoustic.model import MODULE
from bochner.acoustic.recipe import AsrRecipe, load_recipe, parse_model
from bochner.acoustic.results import Row
from bochner.acoustic.settings import PROTOCOLS, KernelSettings, ModelSettings, NetworkSettings
from bochner.acoustic.training import tune_bandwidth
from bochner.models.losses import Criterion
from bochner.search import SelectionParams
from bochner.solvers.step import evaluate
from bochner.speech.pipeline.alignment import Execution
from bochner.speech.score.error_rates import Counts, Score, resampled_rates
from bochner.storage import load
from bochner.studies.results_file import Result
from bochner.studies.speech_bottleneck import PLAIN
from bochner.studies.speech_bottleneck import Cell as BottleneckCell
from bochner.studies.speech_cells import (
    DEPTH,
    HELDOUT,
    METRICS,
    NETWORK,
    PERPLEXITIES,
    SIZES,
    BestCell,
    Cell,
    Sizes,
    all_cells,
)
from bochner.studies.speech_tasks import RECORDED
from bochner.studies.speech_tasks import Cell as TaskCell
from bochner.studies.study import Size, with_seeds
from bochner.studies.workers import one_at_a_time

SYNTHETIC = "synthetic "
REPLICATIONS = 10_000


def recipe_of(data: str, effort: Size, overrides: Mapping[str, object] | None = None) -> AsrRecipe:
    """The recipe of a task, with `overrides` or those of the size; its models are replaced by those of the study.

    >>> recipe = recipe_of("synthetic timit-like", "small")
    >>> recipe.name, recipe.corpus.hours
    ('timit-like', 0.2)
    """
    overrides = SIZES[effort].recipe if overrides is None else overrides
    name = RECORDED[data][0] if data in RECORDED else data.removeprefix(SYNTHETIC)
    return load_recipe(name, overrides=dict(overrides))


def set_up_task(
    data: str, effort: Size, directory: Path, *, device: str, overrides: Mapping[str, object] | None = None
) -> Experiment:
    """The task with its corpus, alignment and graph, which are computed below `directory` unless they exist."""
    recipe, execution = recipe_of(data, effort, overrides), Execution(workers=torch.get_num_threads())
    return setup(recipe, directory, device=device, execution=execution, single_recordings=False)


def settings_of(cell: Cell, experiment: Experiment) -> ModelSettings:
    """The settings of a cell's model; the others are the defaults of recipes."""
    sizes = SIZES[cell.effort]
    if cell.model == NETWORK:
        shared = {**PROTOCOLS["papers"]["network"], **_shared(cell, sizes)}  # networks and training as in the papers
        return NetworkSettings(hidden=(cell.width,) * cell.depth, **shared)
    selection = SelectionParams(rounds=sizes.rounds) if cell.selection else None
    return KernelSettings(
        kernel=cell.model,
        num_features=cell.num_features,
        bandwidth=tuned(cell, experiment)["bandwidth"],
        selection=selection,
        **_shared(cell, sizes),
    )


def tuned(cell: Cell | BottleneckCell, experiment: Experiment) -> dict[str, Any]:
    """The bandwidth that a model of the ablation would choose on heldout, searched once, and the values tried."""
    settings = KernelSettings(kernel=cell.model, num_features=SIZES[cell.effort].num_features)

    def make(_: object) -> dict[str, Any]:
        num_states, device = experiment.aligned.num_states, experiment.device
        data = (experiment.train_rows, experiment.heldout_rows)
        return tune_bandwidth(settings, *data, num_states=num_states, seed=cell.seed, device=device)

    name, inputs = f"{cell.model} seed {cell.seed}", {"model": asdict(settings), "seed": cell.seed}
    inputs["context"] = experiment.recipe.frontend.context
    with one_at_a_time(experiment.root, f"bandwidth {name}"):
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
        **{name: row.heldout[name] for name in (*HELDOUT, *PERPLEXITIES)},
        "ter": row.dev["ter"],
        "metrics": metrics_of(row, experiment),
        "num_states": experiment.aligned.num_states,
        "seconds": row.seconds,
    }


def measure_bottleneck(cell: BottleneckCell, experiment: Experiment, *, max_epochs: int) -> Result:
    """Train a model with or without a bottleneck, measure on heldout frames, decode dev."""
    kind = NETWORK if cell.model == NETWORK else "kernel"
    shared: dict[str, Any] = PROTOCOLS["papers"][kind] if cell.training == PLAIN else {}
    shared = {**shared, "rank": cell.rank, "criterion": cell.criterion, "max_epochs": max_epochs}
    settings: ModelSettings
    if kind == NETWORK:
        settings = NetworkSettings(hidden=(cell.width,) * DEPTH, **shared)
    else:
        bandwidth = tuned(cell, experiment)["bandwidth"]
        settings = KernelSettings(kernel=cell.model, num_features=cell.num_features, bandwidth=bandwidth, **shared)
    row = experiment.train(settings, cell.seed)
    return {**{name: row.heldout[name] for name in HELDOUT}, "ter": row.dev["ter"], "seconds": row.seconds}


def measure_systems(
    cell: TaskCell, experiment: Experiment, candidates: Mapping[str, Sequence[Mapping[str, Any]]], *, budget: float
) -> Result:
    """The chosen kernel model and network, their combination and the GMM on test, with paired intervals."""
    context = experiment.recipe.frontend.context
    chosen: dict[str, list[Row]] = {}
    systems: dict[str, dict[str, Any]] = {}
    models = {
        kind: [parse_model({**values, "kind": kind}, cell.protocol, context) for values in settings]
        for kind, settings in candidates.items()
    }
    for kind, tried in search_models(models, experiment, cell.seeds[0], budget=budget).items():
        best = choose_model(tried, [experiment.score(row, "dev") for row in tried])
        model = models[kind][tried.index(best)]
        rows = [best, *(experiment.train(model, seed) for seed in cell.seeds[1:])]
        chosen[kind] = [experiment.test(row) for row in rows]
        systems[kind] = {"model": best.model, "tried": len(tried), "seconds": spent(tried, experiment)}
    pairs = zip(chosen["kernel"], chosen[NETWORK], strict=True)
    chosen["combination"] = [experiment.test(experiment.combine(pair)) for pair in pairs]
    with one_at_a_time(experiment.root, f"gmm {experiment.alignment.key}"):  # of both protocols
        chosen["gmm"] = [experiment.test(experiment.gmm())]
    scores = {kind: [experiment.score(row, "test") for row in rows] for kind, rows in chosen.items()}
    for kind, rows in chosen.items():
        rates = [score.rate for score in scores[kind]]
        numbers = {"test_ter": fmean(rates), "spread": stdev(rates) if len(rates) > 1 else 0.0, "seeds": len(rates)}
        heldout = {name: fmean(row.heldout[name] for row in rows) for name in HELDOUT if rows[0].heldout}
        systems[kind] = {**systems.get(kind, {}), **numbers, **heldout, "ter": fmean(row.dev["ter"] for row in rows)}
    return {
        "systems": systems,
        "differences": differences(scores, NETWORK),
        "test_tokens": scores["gmm"][0].counts.tokens,
        "budget": budget,
    }


def search_models(
    models: Mapping[str, Sequence[ModelSettings]], experiment: Experiment, seed: int, *, budget: float
) -> dict[str, list[Row]]:
    """Train the models of two kinds in order, each kind until it has taken `budget` seconds, at least one model.

    The last model of a kind exceeds the budget. So the kind that has taken less time goes on as long as a model of its
    average time brings both closer.
    """
    rows: dict[str, list[Row]] = {kind: [] for kind in models}
    for kind, settings in models.items():
        for model in settings:
            if rows[kind] and spent(rows[kind], experiment) >= budget:
                break
            rows[kind].append(experiment.train(model, seed))
    less, more = sorted(rows, key=lambda kind: spent(rows[kind], experiment))
    limit = spent(rows[more], experiment)
    for model in models[less][len(rows[less]) :]:
        seconds = spent(rows[less], experiment)
        if seconds / len(rows[less]) >= 2 * (limit - seconds):
            break
        rows[less].append(experiment.train(model, seed))
    return rows


def choose_model(rows: Sequence[Row], scores: Sequence[Score]) -> Row:
    """The model with the lowest frame error on heldout of those whose error on dev is near the lowest.

    `scores` are those of dev, which has hundreds of tokens where heldout has tens of thousands of frames. An error is
    near the lowest unless the 95 % interval of their difference excludes zero.
    """
    lowest = min(range(len(rows)), key=lambda i: rows[i].dev["ter"])
    above = differences({str(i): [score] for i, score in enumerate(scores)}, str(lowest))
    undecided = [row for i, row in enumerate(rows) if i == lowest or above[str(i)][1] <= 0]
    return min(undecided, key=lambda row: row.heldout["err"])


def spent(rows: Sequence[Row], experiment: Experiment) -> float:
    """The CPU seconds of training; on a GPU, the wall-clock seconds."""
    if experiment.device != "cpu":
        return sum(row.seconds for row in rows)
    return sum(row.seconds if row.cpu_seconds is None else row.cpu_seconds for row in rows)


def differences(systems: Mapping[str, Sequence[Score]], reference: str) -> dict[str, tuple[float, float, float]]:
    """The error rate of each system minus that of `reference`, and the limits of its 95 % interval.

    Errors are averaged over the scores of a system, one per seed. All systems share the resampled speakers, or
    utterances where there are fewer than ten speakers. Source: Bisani and Ney, 2004.
    """
    first = systems[reference][0]
    by_speaker = len(first.by_speaker) >= MIN_SPEAKERS

    def counts(score: Score) -> dict[str, Counts]:
        return score.by_speaker if by_speaker else {scored.id: scored.counts for scored in score.utterances}

    units = counts(first)
    errors = []
    for scores in systems.values():
        by_score = [counts(score) for score in scores]
        errors.append([fmean(counted[name].errors for counted in by_score) for name in units])
    rates = resampled_rates(errors, list(units.values()), replications=REPLICATIONS, seed=0)
    means = {name: fmean(score.rate for score in scores) for name, scores in systems.items()}
    base, differences = rates[list(systems).index(reference)], {}
    for name, drawn in zip(systems, rates, strict=True):
        if name != reference:
            low, high = np.nanquantile(drawn - base, [0.025, 0.975])
            differences[name] = (means[name] - means[reference], float(low), float(high))
    return differences


def metrics_of(row: Row, experiment: Experiment) -> dict[str, float]:
    """The heldout metrics that a schedule can use, by name."""
    module = load(experiment.root / row.directory / ACOUSTIC / MODULE, device=experiment.device)
    scores = evaluate(module, experiment.heldout_rows, loss="softmax")
    return {name: Criterion.parse(name).of(scores) for name in METRICS}


def measure_best(cell: BestCell, experiment: Experiment) -> Result:
    """The lowest value of each metric over the ablation's models of the kind, as in the papers' table of the best
    models.

    Only the model of lowest error on dev is evaluated on test. Values are means over seeds.
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
    """The minimum over models of the mean over seeds."""
    by_model: dict[str, list[float]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(value(row))
    return min(map(fmean, by_model.values()))
