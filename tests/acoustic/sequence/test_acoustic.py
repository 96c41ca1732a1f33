"""Acoustic models trained further on a minute of synthetic speech."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.model import AcousticModel
from bochner.acoustic.sequence import SequenceRecipe, sequence_trained
from bochner.acoustic.sequence.acoustic import last_layer, with_last_layer
from bochner.acoustic.settings import KernelSettings, ModelSettings, NetworkSettings
from bochner.acoustic.training import train_model
from tests.acoustic.spoken import aligned, rows

KERNEL = KernelSettings(num_features=128, bandwidth=20.0, max_epochs=3)
NETWORK = NetworkSettings(hidden=(32, 24), pretrain=False, max_epochs=3)
MODELS = [KERNEL, replace(KERNEL, rank=16), NETWORK, replace(NETWORK, rank=16)]


def trained(settings: ModelSettings) -> nn.Module:
    return train_model(settings, rows("train"), rows("heldout"), num_states=aligned().num_states, seed=0).module


@pytest.mark.parametrize("settings", MODELS, ids=lambda one: one.title)
def test_whole_utterances_are_told_apart_better(settings: ModelSettings) -> None:
    """Only the last layer moves, and the model that was given not at all."""
    model = AcousticModel.of(trained(settings), rows("train"), aligned())
    before = {name: value.clone() for name, value in model.module.state_dict().items()}
    better, history = sequence_trained(model, aligned(), recipe=SequenceRecipe(max_epochs=4))
    after = better.module.state_dict()
    assert history[-1]["mmi"] > history[0]["mmi"] + 0.002
    assert all(torch.equal(value, before[name]) for name, value in model.module.state_dict().items())
    last = "head.weights" if settings.rank is None else "head.second"
    assert {name for name in before if not torch.equal(before[name], after[name])} == {last, "head.bias"}


@pytest.mark.parametrize("settings", MODELS, ids=lambda one: one.title)
def test_the_last_layer_is_taken_off_and_put_back(settings: ModelSettings) -> None:
    module, X = trained(replace(settings, max_epochs=1)), rows("heldout").read(0).X[:50]
    apart = last_layer(module)
    torch.testing.assert_close(apart(X), module(X))
    width = settings.rank or (24 if settings is NETWORK else 128)
    sizes = [tuple(p.shape) for p in apart.parameters() if p.requires_grad]
    assert sizes == [(aligned().num_states, width), (aligned().num_states,)]
    with torch.no_grad():
        apart.head.weights.mul_(2)
    torch.testing.assert_close(with_last_layer(module, apart)(X), apart(X))


def test_what_has_no_last_layer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a kernel model or a network .* got a Identity; train the members"):
        last_layer(nn.Identity())
