"""The speech that models are compared on: made and aligned once, and kept."""

from __future__ import annotations

from pathlib import Path

from bochner.acoustic.contest import Contest
from bochner.acoustic.opening import open_contest
from bochner.acoustic.recipe import AsrRecipe, load_recipe
from bochner.speech.pipeline.alignment import Execution
from bochner.studies.speech.sizes import SIZES
from bochner.studies.study import Size

SYNTHETIC = "synthetic "


def recipe_of(data: str, effort: Size) -> AsrRecipe:
    """The recipe of a task; its own models are not what studies train.

    >>> recipe = recipe_of("synthetic timit-like", "small")
    >>> recipe.name, recipe.corpus.hours
    ('timit-like', 0.2)
    """
    return load_recipe(data.removeprefix(SYNTHETIC), changes=dict(SIZES[effort].recipe))


def open_task(data: str, effort: Size, folder: Path, *, device: str) -> Contest:
    """The task with its corpus, alignment and graph, made below `folder` or found there."""
    return open_contest(recipe_of(data, effort), folder, device=device, work=Execution())
