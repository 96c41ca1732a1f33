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
    cell: TaskCell,
    setup: Callable[[int], Experiment],
    candidates: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    budget: float,
) -> Result:
    """Kernel models, networks, both together and the GMM on test, with paired intervals.

    `setup` gives the task with a draw of its corpus by the seed. The models of each side are determined in the first
    draw: by protocol modern, all that it could train are averaged; by protocol papers, one of them is chosen.
    """
    chosen: dict[str, list[ModelSettings]] = {}
    systems: dict[str, dict[str, Any]] = {}
    rows: dict[str, list[Row]] = {}
    scores: dict[str, list[Score]] = {}
    for seed in cell.seeds:
        experiment = setup(seed)
        if not chosen:
            context = experiment.recipe.frontend.context
            models = {
                kind: [parse_model({**values, "kind": kind}, cell.protocol, context) for values in settings]
                for kind, settings in candidates.items()
            }
            for kind, (tried, seconds) in search_models(models, experiment, seed, budget=budget).items():
                chosen[kind] = tried if cell.protocol == "modern" else [_chosen(tried, experiment, seed)]
                systems[kind] = {"tried": len(tried), "seconds": seconds}
        drawn = {
            kind: experiment.ensemble(models, seed) if len(models) > 1 else experiment.train(models[0], seed)
            for kind, models in chosen.items()
        }
        drawn["combination"] = experiment.combine((drawn["kernel"], drawn[NETWORK]))
        with one_at_a_time(experiment.root, f"gmm {experiment.alignment.key}"):  # of both protocols
            drawn["gmm"] = experiment.gmm()
        for kind, row in drawn.items():
            rows.setdefault(kind, []).append(experiment.test(row))
            scores.setdefault(kind, []).append(experiment.score(row, "test"))
    for kind, of_kind in rows.items():
        rates, total = [score.rate for score in scores[kind]], pooled(scores[kind])
        numbers = {"test_ter": total.rate, "spread": stdev(rates) if len(rates) > 1 else 0.0, "seeds": len(rates)}
        heldout = {name: fmean(row.heldout[name] for row in of_kind) for name in HELDOUT if of_kind[0].heldout}
        about = {"model": of_kind[0].model, "ter": fmean(row.dev["ter"] for row in of_kind)}
        systems[kind] = {**about, **systems.get(kind, {}), **numbers, **heldout}
    return {
        "systems": systems,
        "differences": differences(scores, NETWORK),
        "test_tokens": pooled(scores["gmm"]).tokens,
        "budget": budget,
    }


def search_models(
    models: Mapping[str, Sequence[ModelSettings]], experiment: Experiment, seed: int, *, budget: float
) -> dict[str, tuple[list[ModelSettings], float]]:
    """Train the models of two kinds in order, each kind until it has taken `budget` seconds, at least one model.

    Returns the models and the CPU seconds (on a GPU: seconds) of each kind. The last model of a kind exceeds the
    budget. So the kind that has taken less time goes on as long as a model of its average time brings both closer.
    """
    trained: dict[str, list[ModelSettings]] = {kind: [] for kind in models}
    spent = dict.fromkeys(models, 0.0)

    def train(kind: str, model: ModelSettings) -> None:
        result = experiment.fit(model, seed).result
        trained[kind].append(model)
        spent[kind] += result["cpu_seconds" if experiment.device == "cpu" else "seconds"]

    for kind, settings in models.items():
        for model in settings:
            if trained[kind] and spent[kind] >= budget:
                break
            train(kind, model)
    less, more = sorted(spent, key=lambda kind: spent[kind])
    for model in models[less][len(trained[less]) :]:
        if spent[less] / len(trained[less]) >= 2 * (spent[more] - spent[less]):
            break
        train(less, model)
    return {kind: (trained[kind], spent[kind]) for kind in models}


def _chosen(models: Sequence[ModelSettings], experiment: Experiment, seed: int) -> ModelSettings:
    """The model of `choose_model`, after decoding dev with each."""
    rows = [experiment.train(model, seed) for model in models]
    return models[rows.index(choose_model(rows, [experiment.score(row, "dev") for row in rows]))]


def choose_model(rows: Sequence[Row], scores: Sequence[Score]) -> Row:
    """The model with the lowest frame error on heldout of those whose error on dev is near the lowest.

    `scores` are those of dev, which has hundreds of tokens where heldout has tens of thousands of frames. An error is
    near the lowest unless the 95 % interval of their difference excludes zero.
    """
    lowest = min(range(len(rows)), key=lambda i: rows[i].dev["ter"])
    above = differences({str(i): [score] for i, score in enumerate(scores)}, str(lowest))
    undecided = [row for i, row in enumerate(rows) if i == lowest or above[str(i)][1] <= 0]
    return min(undecided, key=lambda row: row.heldout["err"])


def differences(systems: Mapping[str, Sequence[Score]], reference: str) -> dict[str, tuple[float, float, float]]:
    """The error rate of each system minus that of `reference`, and the limits of its 95 % interval.

    A system has one score per draw of the corpus, whose errors and tokens are added up; a speaker may be in several.
    All systems share the resampled speakers, or utterances where there are fewer than ten speakers. Source: Bisani and
    Ney, 2004.
    """
    by_speaker = len({name for score in systems[reference] for name in score.by_speaker}) >= MIN_SPEAKERS
    counted = {name: _by_unit(scores, by_speaker) for name, scores in systems.items()}
    units = counted[reference]
    errors = [[counts[unit].errors for unit in units] for counts in counted.values()]
    rates = resampled_rates(errors, list(units.values()), replications=REPLICATIONS, seed=0)
    base, differences = rates[list(systems).index(reference)], {}
    for name, drawn in zip(systems, rates, strict=True):
        if name != reference:
            low, high = np.nanquantile(drawn - base, [0.025, 0.975])
            difference = pooled(systems[name]).rate - pooled(systems[reference]).rate
            differences[name] = (difference, float(low), float(high))
    return differences


def pooled(scores: Sequence[Score]) -> Counts:
    """The errors and tokens of several scores together."""
    return sum((score.counts for score in scores), Counts())


def _by_unit(scores: Sequence[Score], by_speaker: bool) -> dict[str, Counts]:
    """The counts of each speaker, or of each utterance, in all scores together."""
    totals: dict[str, Counts] = {}
    for score in scores:
        units = score.by_speaker if by_speaker else {scored.id: scored.counts for scored in score.utterances}
        for name, counts in units.items():
            totals[name] = totals.get(name, Counts()) + counts
    return totals


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
