"""Acoustic models trained further on a minute of synthetic speech."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("kaldi_hmm_gmm")

from bochner.acoustic.model import AcousticModel
from bochner.acoustic.sequence import SequenceRecipe, sequence_trained
from bochner.acoustic.sequence.acoustic import last_layer, with_bottleneck
from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.training import train_model
from bochner.learn.heads import BottleneckHead
from tests.acoustic.spoken import aligned, rows


@pytest.mark.parametrize("rank", [None, 16])
def test_whole_utterances_are_told_apart_better(rank: int | None) -> None:
    settings = KernelSettings(num_features=128, bandwidth=20.0, max_epochs=3, rank=rank)
    found = train_model(settings, rows("train"), rows("heldout"), num_states=aligned().num_states, seed=0)
    model = AcousticModel.of(found.module, rows("train"), aligned())
    frames = np.asarray(aligned().frames[aligned().ids("dev")[0]])
    before = model.log_posteriors(frames)
    better, history = sequence_trained(model, aligned(), recipe=SequenceRecipe(max_epochs=4))
    assert history[-1]["mmi"] > history[0]["mmi"] + 0.002
    assert np.abs(better.log_posteriors(frames) - before).max() > 0.01
    assert np.array_equal(model.log_posteriors(frames), before)  # the one that was given is left alone
    assert isinstance(better.module.head, BottleneckHead) == (rank is not None)


def test_a_bottleneck_is_taken_apart_and_put_together() -> None:
    settings = KernelSettings(num_features=64, bandwidth=20.0, max_epochs=1, rank=8)
    module = train_model(settings, rows("heldout"), rows("heldout"), num_states=aligned().num_states, seed=0).module
    X = rows("heldout").read(0).X[:50]
    apart = last_layer(module)
    torch.testing.assert_close(apart(X), module(X))
    torch.testing.assert_close(with_bottleneck(apart)(X), module(X))
    assert [tuple(p.shape) for p in apart.parameters() if p.requires_grad] == [
        (aligned().num_states, 8),
        (aligned().num_states,),
    ]
