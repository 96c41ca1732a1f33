"""`import bochner` is fast: what it needs is imported on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import bochner
from bochner import estimators
from bochner.kernels import Laplacian
from bochner.models.network import Network

FIRST_USE = """
import os, sys, bochner
assert not {'torch', 'sklearn', 'scipy'} & set(sys.modules)

import torch
for name in ('Laplacian', 'Network', 'KernelRegressor'):  # each loaded by a process that has imported nothing else
    if (child := os.fork()) == 0:
        assert not any(module.startswith('bochner.') for module in sys.modules)
        assert type(bochner.load(os.path.join(sys.argv[1], name))).__name__ == name
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, name

def state():
    return [torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(), torch.get_rng_state().tolist(),
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32,
            torch.get_float32_matmul_precision()]
before = state()
assert 'sklearn' not in sys.modules
bochner.KernelClassifier
assert 'sklearn' in sys.modules
assert state() == before
"""


def test_what_is_needed_is_imported_on_first_use_and_torch_is_left_as_it_is(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    things = [
        Laplacian(bandwidth=3.0),
        Network.draw(num_inputs=2, hidden=(3,), num_outputs=2, generator=torch.Generator()),
        estimators.KernelRegressor(preset=None).fit(X, X[:, 0]),
    ]
    for thing in things:
        bochner.save(thing, tmp_path / type(thing).__name__)
    subprocess.run([sys.executable, "-c", FIRST_USE, str(tmp_path)], check=True)


def test_every_public_name_can_be_imported() -> None:
    assert set(estimators.__all__) < set(bochner.__all__)
    assert all(getattr(bochner, name).__name__.endswith(name) for name in bochner.__all__)
    assert set(bochner.__all__) < set(dir(bochner))
    with pytest.raises(AttributeError, match="no attribute 'KernelClasifier'"):
        bochner.KernelClasifier  # noqa: B018
