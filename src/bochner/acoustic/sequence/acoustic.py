"""An acoustic model trained further by the sequence objective."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from bochner.acoustic.model import AcousticModel
from bochner.acoustic.sequence.graph import phone_graph
from bochner.acoustic.sequence.recipe import SequenceRecipe
from bochner.acoustic.sequence.training import LabelledFrames, Record, train_sequence
from bochner.features import FeatureMap
from bochner.models.heads import BottleneckHead, FeatureModel, Head, LinearHead
from bochner.models.network import Network
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus


def sequence_trained(
    model: AcousticModel,
    aligned: AlignedCorpus,
    *,
    recipe: SequenceRecipe | None = None,
    order: int = 2,
    progress: bool = False,
) -> tuple[AcousticModel, list[Record]]:
    """The model after MMI training on the train part of `aligned`, stopped by its heldout part; and its history.

    The denominator is a phone n-gram of `order` from the alignment of train. Without a `recipe` the acoustic weight is
    that of decoding. Kernel models and networks are trained alike: their last layer moves, all below it stays. Decoding
    weights should be tuned anew: `decode_parts` does.
    """
    recipe = recipe or SequenceRecipe(acoustic_weight=model.weights.acoustic_weight)
    paths = aligned.gmm.alignments.paths
    graph = phone_graph(aligned.gmm.hmm, paths.values(), order=order)
    last = last_layer(model.module)
    train, heldout = (_utterances(aligned, part) for part in ("train", "heldout"))
    history = train_sequence(
        last, train, heldout, graph, recipe, log_priors=torch.from_numpy(model.log_priors), splice=model.splicer,
        progress=progress,
    )  # fmt: skip
    return replace(model, module=with_last_layer(model.module, last)), history


def last_layer(module: nn.Module) -> FeatureModel:
    """A linear head to train, that of the module, on all that lies below it, which stays.

    Of a kernel model that is its features, of a network its hidden layers, and of a bottleneck the first factor too.
    """
    if not isinstance(module, FeatureModel | Network):
        raise ValueError(
            f"model must be a kernel model or a network to be trained by utterances, got a {type(module).__name__}; "
            "train the members of a combination."
        )
    weights, bias = _last(module.head)
    return FeatureModel(Below(module), LinearHead(weights.detach().clone(), bias.detach().clone()))


def with_last_layer(module: nn.Module, trained: FeatureModel) -> nn.Module:
    """A copy of `module` with the last layer that `last_layer` took from it, as it was trained."""
    whole = copy.deepcopy(module)
    assert isinstance(whole, FeatureModel | Network)
    with torch.no_grad():
        for old, new in zip(_last(whole.head), _last(trained.head), strict=True):
            old.copy_(new)
    return whole


class Below(FeatureMap, abstract=True):
    """z(x) below the last layer of a model, with the first factor of its bottleneck; only to train on, never stored."""

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
    """A copy that ends with the last hidden layer; nothing in it is trained."""
    lower = copy.deepcopy(network).requires_grad_(False)
    lower.head = nn.Identity()  # type: ignore[assignment]
    return lower


def _utterances(aligned: AlignedCorpus, part: str) -> list[LabelledFrames]:
    return [
        LabelledFrames(
            torch.from_numpy(np.array(aligned.frames[name], dtype=np.float32)),
            torch.from_numpy(np.array(aligned.states[name], dtype=np.int64)),
        )
        for name in aligned.ids(part)
    ]
