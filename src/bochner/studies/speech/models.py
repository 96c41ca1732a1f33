"""The settings of a cell's model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from bochner.acoustic.contest import Contest
from bochner.acoustic.settings import KernelSettings, ModelSettings, NetworkSettings, SelectionSettings
from bochner.acoustic.stages import Found
from bochner.acoustic.training import tune_bandwidth
from bochner.studies.speech.cells import NETWORK, Cell
from bochner.studies.speech.sizes import SIZES, Sizes


def settings_of(cell: Cell, contest: Contest) -> ModelSettings:
    """What the cell says; the rest is as recipes have it."""
    sizes = SIZES[cell.effort]
    if cell.model == NETWORK:
        return NetworkSettings(hidden=(cell.width,) * cell.depth, **_shared(cell, sizes))
    selection = SelectionSettings(rounds=sizes.rounds) if cell.selection else None
    return KernelSettings(
        kernel=cell.model,  # type: ignore[arg-type]
        num_features=cell.num_features,
        bandwidth=tuned(cell, contest)["bandwidth"],
        selection=selection,
        **_shared(cell, sizes),
    )


def tuned(cell: Cell, contest: Contest) -> dict[str, Any]:
    """The bandwidth that a model of the ablation would find on heldout by itself, found once, and what was tried."""
    settings = KernelSettings(kernel=cell.model, num_features=SIZES[cell.effort].num_features)  # type: ignore[arg-type]

    def make(_: object) -> Found:
        return tune_bandwidth(
            settings,
            contest.train,
            contest.heldout,
            num_states=contest.aligned.num_states,
            seed=cell.seed,
            device=contest.device,
        )

    name, given = f"{cell.model} seed {cell.seed}", {"model": asdict(settings), "seed": cell.seed}
    given["context"] = contest.recipe.frontend.context
    return contest.stages.run("bandwidth", name, given, after=[contest.alignment], make=make).found


def _shared(cell: Cell, sizes: Sizes) -> dict[str, Any]:
    return {
        "rank": sizes.rank if cell.bottleneck else None,
        "criterion": cell.criterion,
        "max_epochs": sizes.max_epochs,
    }
