"""Kernel models: a bandwidth and features that suit the rows, and a linear head on them."""

from __future__ import annotations

from typing import Any

from torch import Generator

from bochner.acoustic.bandwidth import chosen_kernel
from bochner.acoustic.fitted import Trained
from bochner.acoustic.selected import chosen_features
from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.task import Task
from bochner.features import FourierMap
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.solvers.sgd import Record, train


def fit_kernel(settings: KernelSettings, task: Task) -> Trained:
    """Softmax regression on random features of the kernel.

    Bandwidth and metric are chosen first, then the features, then the head is trained, whole or with a bottleneck, by
    SGD that is evened out along the main directions of the features.
    Source: May 2018, Sections 4.1, 4.2 and 5.1; JMLR 2019, Section 6.
    """
    kernel, choices = chosen_kernel(settings, task)
    task.say("kernel", f"{settings.kernel}, bandwidth {kernel.bandwidth:.4g}")
    bias = task.log_shares

    def start(generator: Generator) -> Head:
        sizes: dict[str, Any] = {"num_features": settings.num_features, "num_outputs": task.num_states, "bias": bias}
        if settings.rank is None:
            return LinearHead.zeros(**sizes)
        return BottleneckHead.glorot(**sizes, rank=settings.rank, generator=generator)

    z, facts = chosen_features(kernel, settings, task, start)
    module, history = _fit_head(z, start(task.generator("head")), settings, task)
    choices |= {"rate": history[0]["rate"]}
    if settings.selection is not None:
        return Trained(module, history, choices, facts)
    return Trained(module, history, choices | facts)


def _fit_head(z: FourierMap, head: Head, settings: KernelSettings, task: Task) -> tuple[FeatureModel, list[Record]]:
    """The head on features that stay as they are."""
    model = FeatureModel(z, head).to(task.device)
    recipe = settings.recipe(seed=task.seed, preconditioner_rank=settings.preconditioner_rank, average=settings.average)
    folder = task.folder("training")
    return model, train(model, task.train, task.heldout, recipe, checkpoint_dir=folder, verbose=task.progress)
