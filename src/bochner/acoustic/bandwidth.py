"""The kernel that suits the rows: a bandwidth, and where asked for a metric, chosen on heldout rows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.task import Task
from bochner.data import ArraySource
from bochner.data.blocks import sample_rows
from bochner.features import FourierMap
from bochner.kernels import Stationary, kernel_named
from bochner.models.criteria import Criterion
from bochner.models.heads import FeatureModel, LinearHead
from bochner.search.fit import Task as Rows
from bochner.search.fit import adapted_kernel
from bochner.search.memory import SPARE
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from bochner.storage import load, save, write_atomically

STEP = math.sqrt(2)  # between bandwidths that are tried
MOST_STEPS = 6  # away from the median rule
TRIAL_FEATURES, TRIAL_ROWS, TRIAL_EPOCHS = 1024, 16384, 3
# One round: by the second the metric of frames has forgotten what tells rare states apart.
METRIC_ROUNDS, METRIC_ROWS, METRIC_LANDMARKS = 1, 2**15, 1024
Choices = dict[str, Any]


def chosen_kernel(settings: KernelSettings, task: Task) -> tuple[Stationary, Choices]:
    """What `tuned_kernel` gives, or gave before training was stopped."""
    kept = task.folder("kernel")
    if kept is not None and (kept / "kernel.safetensors").exists():
        return load(kept / "kernel.safetensors"), json.loads((kept / "choices.json").read_bytes())
    kernel, choices = tuned_kernel(settings, task)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        write_atomically(kept / "choices.json", json.dumps(choices).encode())
        save(kernel, kept / "kernel.safetensors")
    return kernel, choices


def tuned_kernel(settings: KernelSettings, task: Task) -> tuple[Stationary, Choices]:
    """The kernel with a bandwidth, and what was tried: {"bandwidth": .., "median": .., "tried": {multiple: ce}}."""
    generator = task.generator("bandwidth")
    sample = sample_rows(task.train, TRIAL_ROWS, generator=generator)
    kernel = kernel_named(settings.kernel, num_inputs=task.train.num_inputs)
    assert isinstance(kernel, Stationary)  # checked by the settings
    kernel = kernel.with_bandwidth("median", sample.X, generator=generator)
    median = kernel.bandwidth
    if settings.adapt == "agop":
        kernel = _adapted(kernel, task)
    if settings.bandwidth is not None:
        return kernel.replace(bandwidth=settings.bandwidth), {"bandwidth": settings.bandwidth, "median": median}
    heldout = ArraySource(*sample_rows(task.heldout, TRIAL_ROWS, generator=generator))
    trial = Trial(settings, task, ArraySource(*sample), heldout)
    steps, tried = climb(lambda step: trial(kernel.replace(bandwidth=median * STEP**step)), most=MOST_STEPS)
    best = median * STEP**steps
    losses = {f"{STEP**step:.3g}": loss for step, loss in sorted(tried.items())}
    return kernel.replace(bandwidth=best), {"bandwidth": best, "median": median, "tried": losses}


def climb(loss: Callable[[int], float], *, most: int) -> tuple[int, dict[int, float]]:
    """The step of least loss among 0, then 1, 2, .. or -1, -2, .. as long as it falls; and all that were tried.

    >>> climb(lambda step: (step - 2.2) ** 2, most=6)[0]
    2
    """
    tried = {0: loss(0), 1: loss(1)}
    way = 1 if tried[1] < tried[0] else -1
    step = way
    while abs(step) <= most:
        tried.setdefault(step, loss(step) if step not in tried else tried[step])
        if not tried[step] < tried[step - way]:
            break
        step += way
    return min(tried, key=lambda one: tried[one]), tried


class Trial:
    """The heldout cross-entropy of a small model under a kernel, after a few epochs on some rows."""

    def __init__(self, settings: KernelSettings, task: Task, rows: ArraySource, heldout: ArraySource) -> None:
        self._recipe = settings.recipe(
            seed=task.seed, criterion="ce", max_epochs=TRIAL_EPOCHS, preconditioner_rank="auto", average=True
        )
        self._num_features = min(settings.num_features, TRIAL_FEATURES)
        self._task, self._rows, self._heldout, self._bias = task, rows, heldout, task.log_shares

    def __call__(self, kernel: Stationary) -> float:
        z = FourierMap.draw(
            kernel,
            num_inputs=self._rows.num_inputs,
            num_features=self._num_features,
            generator=self._task.generator("trial"),
        )
        head = LinearHead.zeros(num_features=self._num_features, num_outputs=self._task.num_states, bias=self._bias)
        model = FeatureModel(z, head).to(self._task.device)
        try:
            train(model, self._rows, self._heldout, self._recipe, verbose=False)
        except FloatingPointError:  # a bandwidth at which nothing can be learned
            return math.inf
        return Criterion("ce").of(evaluate(model, self._heldout, loss="softmax"))


def _adapted(kernel: Stationary, task: Task) -> Stationary:
    """The kernel under the metric of least heldout loss, see `bochner.adaptation.metric`."""
    generator = task.generator("metric")
    sample = ArraySource(*sample_rows(task.train, METRIC_ROWS, generator=generator))
    rows = Rows(sample, task.heldout, sample, task.num_states, task.log_shares.exp().double())
    return adapted_kernel(
        kernel, rows, rounds=METRIC_ROUNDS, num_landmarks=METRIC_LANDMARKS, memory=SPARE, generator=generator
    )
