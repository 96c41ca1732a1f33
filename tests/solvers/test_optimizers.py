"""Plain SGD compared with that of torch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from bochner.solvers.optimizers import (
    PlainSGD,
    SGDSettings,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from tests.processes import run_code


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    generator = torch.Generator().manual_seed(0)
    for p in model.parameters():
        p.data.normal_(generator=generator)
    return model


@pytest.mark.parametrize("l2", [0.0, 0.01])
def test_equals_torch_to_the_last_bit(l2: float) -> None:
    ours, theirs = network(), network()
    weights = [p for p in theirs.parameters() if p.ndim > 1]
    biases = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": weights, "weight_decay": l2}, {"params": biases, "weight_decay": 0.0}]
    peer = torch.optim.SGD(groups, lr=0.3)
    mine = make_optimizer(ours, SGDSettings(alpha=l2), 0.3)
    assert isinstance(mine, PlainSGD)
    X = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
    for _ in range(5):
        for model, optimizer in ((ours, mine), (theirs, peer)):
            optimizer.zero_grad(set_to_none=True)
            model(X).square().sum().backward()
            optimizer.step()
    for p, q in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(p, q)


def test_has_no_state_to_restore() -> None:
    optimizer = make_optimizer(network(), SGDSettings(), 1.0)
    restore_optimizer(optimizer, {})
    assert optimizer_tensors(optimizer) == {}
    with pytest.raises(ValueError, match="state must be empty for plain SGD"):
        restore_optimizer(optimizer, {"optimizer.0.momentum_buffer": torch.zeros(1)})


def test_a_parameter_without_a_gradient_stays() -> None:
    model = network()
    before = [p.detach().clone() for p in model.parameters()]
    model[0](torch.ones(1, 5)).sum().backward()
    make_optimizer(model, SGDSettings(alpha=0.1), 1.0).step()
    assert [torch.equal(p, q) for p, q in zip(model.parameters(), before, strict=True)] == [False, False, True, True]


def test_a_fit_does_without_the_compiler() -> None:
    """It takes longer to import than most fits take."""
    code = (
        "import sys, numpy as np, bochner; G = np.random.default_rng(0);"
        "assert 'torch._dynamo' not in sys.modules;"
        "X = G.normal(size=(3000, 4)).astype('float32');"
        "bochner.KernelClassifier(preset=None, n_components=32, solver_params={'max_epochs': 1}).fit(X, X[:, 0] > 0);"
        "bochner.KernelClassifier(preset='fast').fit(X[:100], X[:100, 0] > 0);"
        "assert 'torch._dynamo' not in sys.modules"
    )
    child = run_code(code)
    assert child.returncode == 0, child.stderr


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw"])
def test_restored_state_has_the_memory_layout_of_its_parameter(name: str) -> None:
    """Fused optimizers of a GPU refuse another one, and checkpoints store all tensors row by row."""
    model = nn.Linear(5, 4)
    model.weight = nn.Parameter(torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).T)
    optimizer = make_optimizer(model, SGDSettings(optimizer=name), 0.1)
    model(torch.ones(2, 5)).square().sum().backward()
    optimizer.step()
    stored = {key: tensor.detach().clone().contiguous() for key, tensor in optimizer_tensors(optimizer).items()}
    restore_optimizer(optimizer, stored)
    for key, tensor in optimizer_tensors(optimizer).items():
        assert torch.equal(tensor, stored[key])
    assert [v.stride() for v in optimizer.state[model.weight].values() if v.ndim] == [(1, 4)] * (
        2 - (name == "momentum")
    )
