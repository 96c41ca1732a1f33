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
from bochner.learn.heads import BottleneckHead, LinearHead
from bochner.learn.model import FeatureModel
from bochner.speech.chain.aligned import AlignedCorpus


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
    that of decoding. Of a head with a bottleneck the second factor is trained, on features projected by the first.
    Decoding weights should be tuned anew: `decode_parts` does.
    """
    recipe = recipe or SequenceRecipe(acoustic_weight=model.weights.acoustic_weight)
    paths = aligned.stage.alignments.paths
    graph = phone_graph(aligned.stage.hmm, paths.values(), order=order)
    module = last_layer(model.module)
    train, heldout = (_utterances(aligned, part) for part in ("train", "heldout"))
    history = train_sequence(
        module, train, heldout, graph, recipe, log_priors=torch.from_numpy(model.log_priors), splice=model.splicer,
        progress=progress,
    )  # fmt: skip
    return replace(model, module=with_bottleneck(module)), history


def last_layer(module: nn.Module) -> nn.Module:
    """A copy to train: where there is a bottleneck, a linear head on features that its first factor projected."""
    if not isinstance(module, FeatureModel) or not isinstance(module.head, BottleneckHead):
        return copy.deepcopy(module)
    head = module.head
    projected = ProjectedMap(module.feature_map, head.first.detach())
    return FeatureModel(projected, LinearHead(head.second.detach().clone(), head.bias.detach().clone()))


def with_bottleneck(module: nn.Module) -> nn.Module:
    """What `last_layer` took apart, put together."""
    if not isinstance(module, FeatureModel) or not isinstance(module.feature_map, ProjectedMap):
        return module
    z, head = module.feature_map, module.head
    assert isinstance(head, LinearHead)
    bottleneck = BottleneckHead(z.matrix, head.weights.detach(), head.bias.detach())
    return FeatureModel(z.feature_map, bottleneck)


class ProjectedMap(FeatureMap, abstract=True):
    """z'(x) = A z(x) for a map z and a matrix A [r, D]; only while training, nothing to be stored."""

    matrix: Tensor

    def __init__(self, feature_map: FeatureMap, matrix: Tensor) -> None:
        super().__init__()
        self.feature_map = feature_map
        self.register_buffer("matrix", matrix)
        self.num_inputs, self.num_features = feature_map.num_inputs, len(matrix)

    def _features(self, X: Tensor) -> Tensor:
        return linear(self.feature_map(X), self.matrix)


def _utterances(aligned: AlignedCorpus, part: str) -> list[LabelledFrames]:
    return [
        LabelledFrames(
            torch.from_numpy(np.array(aligned.frames[name], dtype=np.float32)),
            torch.from_numpy(np.array(aligned.states[name], dtype=np.int64)),
        )
        for name in aligned.ids(part)
    ]
