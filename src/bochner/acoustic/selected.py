"""The features of a kernel model: drawn once, or the survivors of many rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from torch import Generator

from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.task import Task
from bochner.data.sources.rows import num_rows
from bochner.features import FourierMap
from bochner.kernels import Stationary
from bochner.learn.heads import Head
from bochner.learn.model import FeatureModel
from bochner.storage import load, save, write_atomically
from bochner.train.rate import find_rate
from bochner.train.selection import Selection, chance_survival, input_weights, select_features

MOST_ROWS = 1_000_000
Facts = dict[str, list[float]]


def chosen_features(
    kernel: Stationary, settings: KernelSettings, task: Task, start: Callable[[Generator], Head]
) -> tuple[FourierMap, Facts | None]:
    """The map, and of a selection what is to be told: survival rates, those of chance, weights of the inputs.

    `start` makes a fresh head for all features.
    """

    def draw(num_features: int, generator: Generator) -> FourierMap:
        num_inputs = task.train.num_inputs
        drawn = FourierMap.draw(kernel, num_inputs=num_inputs, num_features=num_features, generator=generator)
        return drawn.to(task.device)

    if settings.selection is None:
        return draw(settings.num_features, task.generator("features")), None
    kept = task.folder("selection")
    if kept is not None and (kept / "map.safetensors").exists():
        return load(kept / "map.safetensors", device=task.device), json.loads((kept / "facts.json").read_bytes())
    found = _select(draw, settings, task, start)
    facts = _facts(found, settings)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        write_atomically(kept / "facts.json", json.dumps(facts).encode())
        save(found.feature_map, kept / "map.safetensors")
    return found.feature_map, facts


def _select(
    draw: Callable[[int, Generator], FourierMap],
    settings: KernelSettings,
    task: Task,
    start: Callable[[Generator], Head],
) -> Selection:
    """Rounds of plain SGD as in the papers, at the rate that is best for features as they are first drawn."""
    assert settings.selection is not None
    model = FeatureModel(draw(settings.num_features, task.generator("features")), start(task.generator("head")))
    recipe = settings.recipe(seed=task.seed, learning_rate="auto")
    rate = find_rate(model.to(task.device), task.train, task.heldout, recipe)
    rows = settings.selection.rows_per_round or min(num_rows(task.train), MOST_ROWS)
    task.say("selection", f"{settings.selection.rounds} rounds of {rows:,} rows at the rate {rate:.3g}")
    return select_features(
        draw,
        lambda _, generator: start(generator).to(task.device),
        task.train,
        replace(recipe, learning_rate=rate),
        num_features=settings.num_features,
        rounds=settings.selection.rounds,
        rows_per_round=rows,
        generator=task.generator("features"),
        progress=task.progress,
    )


def _facts(found: Selection, settings: KernelSettings) -> Facts:
    weights = input_weights(found.feature_map, drop_largest=settings.kernel == "laplacian")
    rounds = len(found.drawn)
    return {
        "survival": found.survival().tolist(),
        "chance": chance_survival(rounds).tolist(),
        "input_weights": weights.tolist(),
    }
