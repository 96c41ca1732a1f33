"""Heldout measures against a loop in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from bochner.acoustic.measures import heldout_measures
from bochner.data import ArraySource


def test_measures_are_those_of_a_loop() -> None:
    draw = torch.Generator().manual_seed(0)
    X, y = torch.randn(50, 3, generator=draw), torch.randint(0, 4, (50,), generator=draw)
    module = nn.Linear(3, 4).double()
    found = heldout_measures(module, ArraySource(X, y), silence_states=[1, 3])
    ce = ent = collapsed = wrong = 0.0
    for x, label in zip(X.double(), y.tolist(), strict=True):
        p = np.exp(module(x).detach().numpy())
        p /= p.sum()
        ce -= math.log(p[label]) / 50
        ent -= float((p * np.log(p)).sum()) / 50
        wrong += float(p.argmax() != label) / 50
        collapsed -= math.log(p[1] + p[3] if label in (1, 3) else p[label]) / 50
    wanted = {"ce": ce, "ent": ent, "erll": ce + ent, "err": wrong, "perplexity": math.exp(ce)}
    assert found == pytest.approx({**wanted, "perplexity_silence_collapsed": math.exp(collapsed)})


def test_without_silence_nothing_collapses() -> None:
    found = heldout_measures(nn.Linear(1, 3), ArraySource(torch.ones(4, 1), torch.tensor([0, 1, 2, 0])))
    assert found["perplexity_silence_collapsed"] == pytest.approx(found["perplexity"])
