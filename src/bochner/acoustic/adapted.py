"""Features adapted to frames and their states by gradients, before a head is trained on them."""

from __future__ import annotations

from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.task import Task
from bochner.adaptation import Plan, fit_basis
from bochner.features import FourierMap
from bochner.models.heads import Head

OBJECTIVES = {"uab": "kernel", "sab": "alignment", "dab": "loss"}
# At most 1,024 steps of 256 rows, whatever the number of frames: about what the epochs of the head cost afterwards.
BATCH_ROWS, BATCHES, HELDOUT_BATCHES, MAX_EPOCHS, PATIENCE = 256, 128, 32, 8, 2
# Those of Plan for 64 rows, times the root of four.
LEARNING_RATE, HEAD_RATE = 6e-3, 0.2


def adapted_features(
    z: FourierMap, settings: KernelSettings, task: Task, head: Head
) -> tuple[FourierMap, dict[str, list[float]]]:
    """The random map `z` moved towards the objective of `settings.adapt`, and the objective on heldout, epoch by epoch.

    "uab" fits the kernel, "sab" aligns with the states, "dab" lowers the loss of `head`, which is then forgotten: the
    head of every basis is trained afterwards, on all rows. Never worse on heldout than `z` by its objective.
    Cost: at most 1,024 steps, each three times the features of 256 rows. Source: Alber et al. 2017, Section 3.2.
    """
    assert settings.adapt in OBJECTIVES
    objective = OBJECTIVES[settings.adapt]
    plan = Plan(
        batch_size=BATCH_ROWS, learning_rate=LEARNING_RATE, head_rate=HEAD_RATE, batches=BATCHES,
        heldout_batches=HELDOUT_BATCHES, patience=PATIENCE, max_epochs=MAX_EPOCHS, seed=task.seed,
    )  # fmt: skip
    given = head.to(task.device) if objective == "loss" else None
    basis = fit_basis(
        z, task.train, objective=objective, validation_data=task.heldout, head=given, plan=plan, verbose=task.progress
    )
    heldout = [record["heldout"] for record in basis.history]
    task.say("basis", f"{objective} {heldout[0]:.4g} -> {min(heldout):.4g} on heldout, {len(heldout) - 1} epochs")
    return basis.feature_map, {"adapted": heldout}
