"""Derivatives in the parameters that adaptation changes, compared with finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, Tensor
from torch.func import functional_call

from tests.adaptation.families import FAMILIES, draw


@pytest.mark.parametrize("family", FAMILIES)
def test_features_are_differentiable_in_their_parameters(family: str) -> None:
    z = draw(family, num_inputs=5, num_features=10, dtype=torch.float64)  # 5 inputs are padded to 8 where transformed
    X = torch.randn(3, 5, generator=Generator().manual_seed(0), dtype=torch.float64)
    names = z.adaptable()
    values = [z.get_parameter(name).detach().clone().requires_grad_(True) for name in names]

    def features(*values: Tensor) -> Tensor:
        return functional_call(z, dict(zip(names, values, strict=True)), (X,))

    assert names
    assert torch.autograd.gradcheck(features, values, eps=1e-6, atol=1e-7)
