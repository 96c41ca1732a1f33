"""`import bochner` is fast: what it needs is imported on first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner import estimators

FIRST_USE = """
import sys, bochner
assert not {'torch', 'sklearn', 'scipy'} & set(sys.modules)

import torch
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


def test_torch_and_scikit_learn_are_imported_on_first_use_and_torch_is_left_as_it_is() -> None:
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True)


def test_every_public_name_can_be_imported() -> None:
    assert set(estimators.__all__) < set(bochner.__all__)
    assert all(getattr(bochner, name).__name__.endswith(name) for name in bochner.__all__)
    assert set(bochner.__all__) < set(dir(bochner))
    with pytest.raises(AttributeError, match="no attribute 'KernelClasifier'"):
        bochner.KernelClasifier  # noqa: B018


def test_a_new_process_loads_an_estimator(tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    bochner.save(estimators.KernelRegressor(preset=None).fit(X, X[:, 0]), tmp_path / "model.safetensors")
    program = f"import bochner; bochner.load({str(tmp_path / 'model.safetensors')!r}).predict([[0.0, 1.0]])"
    subprocess.run([sys.executable, "-c", program], check=True)
