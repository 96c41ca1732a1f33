"""Networks, as the papers train them."""

from __future__ import annotations

from bochner.acoustic.fitted import Trained
from bochner.acoustic.settings import NetworkSettings
from bochner.acoustic.task import Task
from bochner.models.network import Network
from bochner.solvers.pretraining import pretrain
from bochner.solvers.sgd import train


def fit_network(settings: NetworkSettings, task: Task) -> Trained:
    """A random start, pre-training layer by layer where asked for, then the whole.

    Source: May 2018, Section 4.3.
    """
    network = Network.draw(
        num_inputs=task.train.num_inputs,
        hidden=settings.hidden,
        num_outputs=task.num_states,
        activation=settings.activation,
        rank=settings.rank,
        generator=task.generator("network"),
    ).to(task.device)
    recipe = settings.recipe(seed=task.seed, optimizer=settings.optimizer)
    if settings.pretrain:
        pretrain(
            network, task.train, task.heldout, recipe, generator=task.generator("heads"),
            checkpoint_dir=task.folder("pretraining"), verbose=task.progress,
        )  # fmt: skip
    history = train(
        network, task.train, task.heldout, recipe, checkpoint_dir=task.folder("training"), verbose=task.progress
    )
    return Trained(network, history, {"rate": history[0]["rate"]})
