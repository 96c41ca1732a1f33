"""The features of a kernel model: drawn once, adapted, or the survivors of many rounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from torch import Generator

from bochner.acoustic.adapted import adapted_features
from bochner.acoustic.settings import BASES, KernelSettings
from bochner.acoustic.task import Task
from bochner.adaptation.selection import Selection, chance_survival, input_weights, select_features
from bochner.data.blocks import num_rows
from bochner.features import FourierMap
from bochner.kernels import Stationary
from bochner.models.heads import FeatureModel, Head
from bochner.solvers.learning_rate import find_rate
from bochner.storage import load, save, write_atomically

MOST_ROWS = 1_000_000
MAP, FACTS = "map.safetensors", "facts.json"
Facts = dict[str, list[float]]


def chosen_features(
    kernel: Stationary, settings: KernelSettings, task: Task, start: Callable[[Generator], Head]
) -> tuple[FourierMap, Facts]:
    """The map, and what is to be told of it.

    Of a selection that is survival rates, those of chance, and weights of the inputs; of an adapted basis, how its
    objective fell. `start` makes a fresh head for all features.
    """

    def draw(num_features: int, generator: Generator) -> FourierMap:
        num_inputs = task.train.num_inputs
        drawn = FourierMap.draw(kernel, num_inputs=num_inputs, num_features=num_features, generator=generator)
        return drawn.to(task.device)

    if settings.selection is not None:
        return _kept(task, "selection", lambda: _selected(draw, settings, task, start))
    z = draw(settings.num_features, task.generator("features"))
    if settings.adapt in BASES:
        return _kept(task, "basis", lambda: adapted_features(z, settings, task, start(task.generator("head"))))
    return z, {}


def _kept(task: Task, name: str, make: Callable[[], tuple[FourierMap, Facts]]) -> tuple[FourierMap, Facts]:
    """What `make` gives, or gave before training was stopped."""
    folder = task.folder(name)
    if folder is not None and (folder / MAP).exists():
        return load(folder / MAP, device=task.device), json.loads((folder / FACTS).read_bytes())
    feature_map, facts = make()
    if folder is not None:
        _keep(folder, feature_map, facts)
    return feature_map, facts


def _keep(folder: Path, feature_map: FourierMap, facts: Facts) -> None:
    """The map comes last, so that a folder with one is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FACTS, json.dumps(facts).encode())
    save(feature_map, folder / MAP)


def _selected(
    draw: Callable[[int, Generator], FourierMap],
    settings: KernelSettings,
    task: Task,
    start: Callable[[Generator], Head],
) -> tuple[FourierMap, Facts]:
    found = _select(draw, settings, task, start)
    return found.feature_map, _facts(found, settings)


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
        verbose=task.progress,
    )


def _facts(found: Selection, settings: KernelSettings) -> Facts:
    weights = input_weights(found.feature_map, drop_largest=settings.kernel == "laplacian")
    rounds = len(found.drawn)
    return {
        "survival": found.survival().tolist(),
        "chance": chance_survival(rounds).tolist(),
        "input_weights": weights.tolist(),
    }
