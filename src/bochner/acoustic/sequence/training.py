"""A head on fixed features, or any model of frames, trained by the MMI objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from bochner.acoustic.sequence.graph import StateGraph
from bochner.acoustic.sequence.objective import mmi
from bochner.acoustic.sequence.recipe import SequenceRecipe
from bochner.data import ArraySource
from bochner.solvers.optimizers import Optimizer, make_optimizer, trainable
from bochner.solvers.preconditioner import Preconditioner, fit_preconditioner
from bochner.solvers.settings import SGDSettings
from bochner.solvers.sgd import Decision, HalvingSchedule
from bochner.solvers.step import device_of

Record = dict[str, Any]
LARGEST = 700.0  # exp of more is no float


class LabelledFrames(NamedTuple):
    """One utterance: its frames [T, d], and the pdf of each frame [T] by forced alignment."""

    frames: Tensor
    labels: Tensor


Batch = Sequence[LabelledFrames]
Splice = Callable[[Tensor], Tensor]


class Objective(NamedTuple):
    """Means over frames: `loss` is what training makes smaller, of the objective `mmi` and the cross-entropy `ce`."""

    loss: float
    mmi: float
    ce: float


def train_sequence(
    model: nn.Module,
    utterances: Batch,
    heldout: Batch,
    graph: StateGraph,
    recipe: SequenceRecipe,
    *,
    log_priors: Tensor,
    splice: Splice | None = None,
    progress: bool = False,
) -> list[Record]:
    """Train `model`, rows [N, d] -> logits [N, S], in place from where cross-entropy left it; one record an epoch.

    Minimises frame_weight CE - MMI / acoustic_weight, a mean over frames. The papers' schedule watches it on `heldout`:
    an epoch that gains little halves the rate, one that loses is undone, and `max_halvings` end the training; so the
    model never leaves with a worse heldout loss than it came with. What does not require gradients, such as the
    frequencies of a feature map, stays. The first record, of epoch 0, is the model as it came. `log_priors` [S] are
    those of decoding; `splice` makes rows of the frames of an utterance, such as a `Splicer`, where they are not rows.

    Time of an epoch: that of the model forward and backward, and O(N + A) a frame for a graph of N nodes and A arcs.
    Memory: the features of one batch of utterances, and N doubles for each of their frames.

    >>> half, two = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.tensor([0, 1])
    >>> graph = StateGraph(pdfs=two, starts=half, ends=half, sources=two, targets=two, weights=half)  # 0 0 0, or 1 1 1
    >>> said = [LabelledFrames(torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([0, 0, 0]))]
    >>> head, recipe = nn.Linear(1, 2), SequenceRecipe(preconditioner_rank=0, learning_rate=1.0, max_epochs=1)
    >>> history = train_sequence(head, said, said, graph, recipe, log_priors=torch.zeros(2))
    >>> history[1]["mmi"] > history[0]["mmi"]
    True
    """
    splice = splice or _as_they_are
    trainer = _Trainer(model, graph, recipe, log_priors, splice)
    runner = _Runner(model, utterances, recipe, splice)
    came = trainer.evaluate(heldout)
    history: list[Record] = [{"epoch": 0, **came._asdict()}]
    schedule = HalvingSchedule(runner.rate, 1.0, recipe.improvement, recipe.max_halvings)
    order, batches = Generator().manual_seed(recipe.seed), _batches(utterances, recipe.batch_utterances)
    while not schedule.finished and len(history) <= recipe.max_epochs:
        rate, before = schedule.rate, {name: p.detach().clone() for name, p in trainable(model).items()}
        places = torch.randperm(len(batches), generator=order).tolist()
        for place in tqdm(places, desc=f"sequence epoch {len(history)}", leave=False, disable=not progress):
            runner.step(trainer.loss(batches[place]), rate)
        reached = trainer.evaluate(heldout)
        verdict = schedule.update(_ratio(reached.loss - came.loss))
        if verdict is Decision.REVERT:
            _restore(model, before)
        history.append({"epoch": len(history), "rate": rate, "decision": verdict.value, **reached._asdict()})
    return history


class _Trainer:
    """The objective of a model on batches of utterances."""

    def __init__(
        self, model: nn.Module, graph: StateGraph, recipe: SequenceRecipe, log_priors: Tensor, splice: Splice
    ) -> None:
        device = device_of(model)
        self.model, self.recipe, self.splice = model, recipe, splice
        self.graph, self.log_priors = graph.to(device), log_priors.to(device)

    def loss(self, batch: Batch) -> Tensor:
        return self._combined(*self._sums(batch)) / _num_frames(batch)

    def evaluate(self, utterances: Batch) -> Objective:
        with torch.no_grad():
            parts = [torch.stack(self._sums(batch)) for batch in _batches(utterances, self.recipe.batch_utterances)]
        mmi, ce = torch.stack(parts).sum(dim=0) / _num_frames(utterances)
        return Objective(float(self._combined(mmi, ce)), float(mmi), float(ce))

    def _combined(self, mmi: Tensor, ce: Tensor) -> Tensor:
        """Divided by the acoustic weight MMI has gradients of cross-entropy's size, 1 a frame at most."""
        return self.recipe.frame_weight * ce - mmi / self.recipe.acoustic_weight

    def _sums(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """MMI and cross-entropy, added up over the frames of a batch."""
        sizes = [len(one.labels) for one in batch]
        rows = torch.cat([self.splice(one.frames) for one in batch])
        logits = self.model(rows.to(next(self.model.parameters())))
        labels = torch.cat([one.labels for one in batch]).to(logits.device, torch.long)
        found = mmi(
            self.graph,
            pad_sequence(list(logits.split(sizes)), batch_first=True),
            pad_sequence(list(labels.split(sizes)), batch_first=True),
            torch.tensor(sizes, device=logits.device),
            log_priors=self.log_priors,
            acoustic_weight=self.recipe.acoustic_weight,
        )
        return found.sum(), cross_entropy(logits, labels, reduction="sum").double()


class _Runner:
    """What moves a model."""

    def __init__(self, model: nn.Module, utterances: Batch, recipe: SequenceRecipe, splice: Splice) -> None:
        self.preconditioner = _preconditioner(model, utterances, recipe, splice) if recipe.preconditioner_rank else None
        self.rate = _first_rate(recipe, self.preconditioner)
        self.optimizer: Optimizer = make_optimizer(model, SGDSettings(), self.rate)

    def step(self, loss: Tensor, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.preconditioner is not None:
            self.preconditioner.apply()
        self.optimizer.step()


def _first_rate(recipe: SequenceRecipe, preconditioner: Preconditioner | None) -> float:
    if not isinstance(recipe.learning_rate, str):
        return recipe.learning_rate
    assert preconditioner is not None  # the recipe was checked
    return preconditioner.rate


def _ratio(gain: float) -> float:
    """exp: a relative change of this is an absolute one of the loss, whose own zero means nothing."""
    return math.exp(min(gain, LARGEST))


def _batches(utterances: Batch, size: int) -> list[Batch]:
    """Utterances of like length together, so that little is padded."""
    ordered = sorted(utterances, key=lambda one: len(one.labels))
    if not ordered:
        raise ValueError("utterances and heldout must hold at least one utterance each, got none.")
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _as_they_are(frames: Tensor) -> Tensor:
    return frames


def _num_frames(batch: Batch) -> int:
    return sum(len(one.labels) for one in batch)


def _preconditioner(
    model: nn.Module, utterances: Batch, recipe: SequenceRecipe, splice: Splice
) -> Preconditioner | None:
    """From some utterances drawn at random, enough for the rows that are wanted."""
    rows = max(1, _num_frames(utterances) * recipe.batch_utterances // len(utterances))
    plain = SGDSettings(preconditioner_rank=recipe.preconditioner_rank, batch_size=rows, seed=recipe.seed)
    generator, chosen = Generator().manual_seed(recipe.seed), []
    for place in torch.randperm(len(utterances), generator=generator).tolist():
        chosen.append(utterances[place])
        if _num_frames(chosen) >= 4 * plain.preconditioner_rows:
            break
    sample = ArraySource(torch.cat([splice(one.frames) for one in chosen]), torch.cat([one.labels for one in chosen]))
    return fit_preconditioner(model, sample, plain)


def _restore(model: nn.Module, state: dict[str, Tensor]) -> None:
    with torch.no_grad():
        for name, parameter in trainable(model).items():
            parameter.copy_(state[name])
