"""Sequence-discriminative training: the last layer of an acoustic model by the MMI objective of whole utterances."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from bochner import checks
from bochner.acoustic.mmi import StateGraph, mmi, phone_graph
from bochner.acoustic.model import AcousticModel
from bochner.data import ArraySource
from bochner.features import FeatureMap
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.models.network import Network
from bochner.solvers.optimizers import SGDSettings, make_optimizer, trainable
from bochner.solvers.preconditioner import Preconditioner, fit_preconditioner
from bochner.solvers.sgd import Decision, HalvingSchedule
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus

Record = dict[str, Any]
MAX_EXPONENT = 700.0  # exp(710) overflows


@dataclass(frozen=True, kw_only=True)
class SequenceSettings:
    """Settings of training by the MMI objective.

    Args:
        acoustic_weight: The factor of log likelihoods against the log probabilities of the graph.
        frame_weight: Weight of the cross-entropy that is minimised at the same time ("F-smoothing").
        learning_rate: The initial rate; "auto" is the inverse of the largest curvature after preconditioning.
        preconditioner_rank: Number of top eigenvectors of the features in the preconditioner (see `Preconditioner`);
            "auto" is as many as a batch can resolve; must be 0 except for a LinearHead on features.
        batch_utterances: Utterances per step.
        max_epochs: An upper bound; the schedule usually ends earlier.
        improvement: The decrease of the heldout loss, in nats per frame, below which the rate is halved.
        max_halvings: The number of halvings that ends training.
        seed: Seed of the order of the batches.

    Source: Vesely et al. 2013; Su et al. 2013 (smoothing).
    """

    acoustic_weight: float = 0.1
    frame_weight: float = 0.1
    learning_rate: float | str = "auto"
    preconditioner_rank: int | str = "auto"
    batch_utterances: int = 8
    max_epochs: int = 20
    improvement: float = 0.01
    max_halvings: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        checks.positive_float("acoustic_weight", self.acoustic_weight)
        if self.learning_rate != "auto":
            checks.positive_float("learning_rate", self.learning_rate)
        elif self.preconditioner_rank == 0:
            raise ValueError("learning_rate must be a number with preconditioner_rank=0, got 'auto'.")
        for name in ("frame_weight", "improvement"):
            checks.nonnegative_float(name, getattr(self, name))
        for name in ("batch_utterances", "max_epochs", "max_halvings"):
            checks.positive_int(name, getattr(self, name))


def sequence_trained(
    model: AcousticModel,
    aligned: AlignedCorpus,
    *,
    settings: SequenceSettings | None = None,
    order: int = 2,
    verbose: bool = False,
) -> tuple[AcousticModel, list[Record]]:
    """The model after MMI training on train, with heldout for the schedule; and its history.

    The denominator is a phone n-gram of `order` from the alignment of train. The default acoustic weight is that of
    decoding. Only the last layer is trained, for kernel models and networks alike. Decoding weights should be tuned
    again, as `decode_parts` does.
    """
    if model.module is None:
        raise ValueError("model must be a kernel model or a network, got a GMM.")
    settings = settings or SequenceSettings(acoustic_weight=model.weights.acoustic_weight)
    paths = aligned.gmm.alignments.paths
    graph = phone_graph(aligned.gmm.hmm, paths.values(), order=order)
    last = last_layer(model.module)
    train, heldout = (_utterances(aligned, part) for part in ("train", "heldout"))
    history = train_sequence(
        last, train, heldout, graph, settings, log_priors=torch.from_numpy(model.log_priors), splice=model.splicer,
        verbose=verbose,
    )  # fmt: skip
    return replace(model, module=with_last_layer(model.module, last)), history


def last_layer(module: nn.Module) -> FeatureModel:
    """A copy of the last linear layer of a module, on the fixed layers below it.

    These are the features of a kernel model or the hidden layers of a network, and the first factor of a bottleneck.
    """
    if not isinstance(module, FeatureModel | Network):
        raise ValueError(
            f"model must be a kernel model or a network, got a {type(module).__name__}; train the members of a "
            "combination instead."
        )
    weights, bias = _last(module.head)
    return FeatureModel(_FixedLayers(module), LinearHead(weights.detach().clone(), bias.detach().clone()))


def with_last_layer(module: nn.Module, trained: FeatureModel) -> nn.Module:
    """A copy of `module` with the trained layer of `last_layer`."""
    whole = copy.deepcopy(module)
    assert isinstance(whole, FeatureModel | Network)
    with torch.no_grad():
        for old, new in zip(_last(whole.head), _last(trained.head), strict=True):
            old.copy_(new)
    return whole


class _FixedLayers(FeatureMap, abstract=True):
    """The layers below the last one of a model, with the first factor of its bottleneck; never stored."""

    first: Tensor | None

    def __init__(self, module: FeatureModel | Network) -> None:
        super().__init__()
        self.lower = module.feature_map if isinstance(module, FeatureModel) else _hidden_layers(module)
        head = module.head
        self.register_buffer("first", head.first.detach() if isinstance(head, BottleneckHead) else None)
        self.num_inputs, self.num_features = self.lower.num_inputs, _last(head)[0].shape[1]

    def _features(self, X: Tensor) -> Tensor:
        Z: Tensor = self.lower(X)
        return Z if self.first is None else linear(Z, self.first)


def _last(head: Head) -> tuple[Tensor, Tensor]:
    """Weights and bias of the last layer."""
    return head.second if isinstance(head, BottleneckHead) else head.weights, head.bias


def _hidden_layers(network: Network) -> Network:
    """A copy without the output layer, with fixed parameters."""
    lower = copy.deepcopy(network).requires_grad_(False)
    lower.head = nn.Identity()  # type: ignore[assignment]
    return lower


def _utterances(aligned: AlignedCorpus, part: str) -> list[AlignedUtterance]:
    return [
        AlignedUtterance(
            torch.from_numpy(np.array(aligned.frames[name], dtype=np.float32)),
            torch.from_numpy(np.array(aligned.states[name], dtype=np.int64)),
        )
        for name in aligned.ids(part)
    ]


class AlignedUtterance(NamedTuple):
    """The frames [T, d] of an utterance and their pdfs [T] by forced alignment."""

    frames: Tensor
    labels: Tensor


Batch = Sequence[AlignedUtterance]
Splice = Callable[[Tensor], Tensor]


class ObjectiveValues(NamedTuple):
    """Means over frames of the loss that is minimised, the objective `mmi` and the cross-entropy `ce`."""

    loss: float
    mmi: float
    ce: float


def train_sequence(
    model: nn.Module,
    utterances: Batch,
    heldout: Batch,
    graph: StateGraph,
    settings: SequenceSettings,
    *,
    log_priors: Tensor,
    splice: Splice | None = None,
    verbose: bool = False,
) -> list[Record]:
    """Train `model`, rows [N, d] -> logits [N, S], further in place; returns one record per epoch.

    Minimises frame_weight CE - MMI / acoustic_weight, a mean over frames, by SGD with the papers' schedule: an epoch
    with little improvement on `heldout` halves the rate, an epoch with an increase is reverted, and `max_halvings` end
    the training. The heldout loss of the result is therefore never above the initial one. Parameters that do not
    require gradients, such as the frequencies of a feature map, are fixed. The first record, of epoch 0, is that of the
    initial model. `log_priors` [S] are those of decoding; `splice`, such as a `Splicer`, turns the frames of an
    utterance into rows.

    Time per epoch: a forward and backward pass of the model, and O(N + A) per frame for a graph of N nodes and A arcs.
    Memory: the features of one batch of utterances, and N doubles for each of their frames.

    >>> half, two = torch.tensor([0.5, 0.5], dtype=torch.float64), torch.tensor([0, 1])
    >>> graph = StateGraph(pdfs=two, starts=half, ends=half, sources=two, targets=two, weights=half)  # 0 0 0, or 1 1 1
    >>> utterances = [AlignedUtterance(torch.tensor([[1.0], [-1.0], [1.0]]), torch.tensor([0, 0, 0]))]
    >>> head, settings = nn.Linear(1, 2), SequenceSettings(preconditioner_rank=0, learning_rate=1.0, max_epochs=1)
    >>> history = train_sequence(head, utterances, utterances, graph, settings, log_priors=torch.zeros(2))
    >>> history[1]["mmi"] > history[0]["mmi"]
    True
    """
    splice = splice or (lambda frames: frames)
    objective = _Objective(model, graph, settings, log_priors, splice)
    preconditioner = _fit_preconditioner(model, utterances, settings, splice) if settings.preconditioner_rank else None
    if isinstance(settings.learning_rate, str):
        assert preconditioner is not None  # SequenceSettings checks that
        rate = preconditioner.rate
    else:
        rate = settings.learning_rate
    optimizer = make_optimizer(model, SGDSettings(), rate)
    initial = objective.evaluate(heldout)
    history: list[Record] = [{"epoch": 0, **initial._asdict()}]
    schedule = HalvingSchedule(rate, 1.0, settings.improvement, settings.max_halvings)
    order, batches = Generator().manual_seed(settings.seed), _batches(utterances, settings.batch_utterances)
    while not schedule.finished and len(history) <= settings.max_epochs:
        rate, before = schedule.rate, {name: p.detach().clone() for name, p in trainable(model).items()}
        for group in optimizer.param_groups:
            group["lr"] = rate
        indices = torch.randperm(len(batches), generator=order).tolist()
        for index in tqdm(indices, desc=f"sequence epoch {len(history)}", leave=False, disable=not verbose):
            optimizer.zero_grad(set_to_none=True)
            objective.loss(batches[index]).backward()
            if preconditioner is not None:
                preconditioner.apply()
            optimizer.step()
        values = objective.evaluate(heldout)
        # The schedule compares ratios, but the loss has no natural zero: a ratio of exp(loss) is a difference.
        decision = schedule.update(math.exp(min(values.loss - initial.loss, MAX_EXPONENT)))
        if decision is Decision.REVERT:
            with torch.no_grad():
                for name, parameter in trainable(model).items():
                    parameter.copy_(before[name])
        history.append({"epoch": len(history), "rate": rate, "decision": decision.value, **values._asdict()})
    return history


class _Objective:
    """The objective of a model on batches of utterances."""

    def __init__(
        self, model: nn.Module, graph: StateGraph, settings: SequenceSettings, log_priors: Tensor, splice: Splice
    ) -> None:
        device = next(model.parameters()).device
        self.model, self.settings, self.splice = model, settings, splice
        self.graph, self.log_priors = graph.to(device), log_priors.to(device)

    def loss(self, batch: Batch) -> Tensor:
        return self._combined(*self._sums(batch)) / _num_frames(batch)

    def evaluate(self, utterances: Batch) -> ObjectiveValues:
        with torch.no_grad():
            parts = [torch.stack(self._sums(batch)) for batch in _batches(utterances, self.settings.batch_utterances)]
        mmi, ce = torch.stack(parts).sum(dim=0) / _num_frames(utterances)
        return ObjectiveValues(float(self._combined(mmi, ce)), float(mmi), float(ce))

    def _combined(self, mmi: Tensor, ce: Tensor) -> Tensor:
        """Division by the acoustic weight gives MMI gradients of the size of cross-entropy's, at most 1 per frame."""
        return self.settings.frame_weight * ce - mmi / self.settings.acoustic_weight

    def _sums(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """MMI and cross-entropy, summed over the frames of a batch."""
        sizes = [len(utterance.labels) for utterance in batch]
        rows = torch.cat([self.splice(utterance.frames) for utterance in batch])
        logits = self.model(rows.to(next(self.model.parameters())))
        labels = torch.cat([utterance.labels for utterance in batch]).to(logits.device, torch.long)
        objective = mmi(
            self.graph,
            pad_sequence(list(logits.split(sizes)), batch_first=True),
            pad_sequence(list(labels.split(sizes)), batch_first=True),
            torch.tensor(sizes, device=logits.device),
            log_priors=self.log_priors,
            acoustic_weight=self.settings.acoustic_weight,
        )
        return objective.sum(), cross_entropy(logits, labels, reduction="sum").double()


def _batches(utterances: Batch, size: int) -> list[Batch]:
    """Batches of utterances of similar length, which need little padding."""
    ordered = sorted(utterances, key=lambda utterance: len(utterance.labels))
    if not ordered:
        raise ValueError("utterances and heldout must hold at least one utterance each, got none.")
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _num_frames(batch: Batch) -> int:
    return sum(len(utterance.labels) for utterance in batch)


def _fit_preconditioner(
    model: nn.Module, utterances: Batch, settings: SequenceSettings, splice: Splice
) -> Preconditioner | None:
    """The preconditioner from random utterances, with 4 times as many rows, since those of an utterance are
    correlated."""
    rows = max(1, _num_frames(utterances) * settings.batch_utterances // len(utterances))
    sgd = SGDSettings(preconditioner_rank=settings.preconditioner_rank, batch_size=rows, seed=settings.seed)
    generator, sample = Generator().manual_seed(settings.seed), []
    for index in torch.randperm(len(utterances), generator=generator).tolist():
        sample.append(utterances[index])
        if _num_frames(sample) >= 4 * sgd.preconditioner_rows:
            break
    X, y = torch.cat([splice(u.frames) for u in sample]), torch.cat([u.labels for u in sample])
    return fit_preconditioner(model, ArraySource(X, y), sgd)
