"""The theorems hold for Nystrom maps, and each check fails for other maps."""

from __future__ import annotations

import pytest
import torch
from torch import Generator

from bochner.features import NystromMap
from bochner.kernels import Gaussian
from bochner.studies import nystrom_theorems as theorems
from bochner.studies.nystrom_theorems import THEOREMS, Setup, centred_tail

KERNEL = Gaussian(bandwidth=1.5)


@pytest.fixture(scope="module")
def setup() -> Setup:
    X = torch.randn(120, 3, generator=Generator().manual_seed(0)).double()
    z = NystromMap.fit(KERNEL, X, num_landmarks=10, generator=Generator().manual_seed(1))
    return Setup(X, KERNEL(X), z)


@pytest.mark.parametrize("theorem", THEOREMS)
def test_holds_for_a_nystrom_map(setup: Setup, theorem: str) -> None:
    assert THEOREMS[theorem](setup, Generator().manual_seed(0))["holds"]


@pytest.mark.parametrize("theorem", ["corollaries 1.2, 1.3", "5", "7"])
def test_does_not_hold_for_features_that_are_too_long(setup: Setup, theorem: str) -> None:
    longer = NystromMap(KERNEL, setup.z.landmarks, 1.2 * setup.z.normalization)
    assert not THEOREMS[theorem](setup._replace(z=longer), Generator().manual_seed(0))["holds"]


def test_larger_balls_hold_points_that_are_hardly_underestimated(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "STEEPEST", 1e-4)
    assert not THEOREMS["4"](setup, Generator().manual_seed(0))["holds"]


def test_a_longer_tail_would_promise_too_much(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorems, "centred_tail", lambda K, num_first: 1.0)
    assert not THEOREMS["6"](setup, Generator().manual_seed(0))["holds"]


def test_the_tail_is_that_of_centred_features() -> None:
    """Compared with the centred covariance of explicit features of a linear kernel."""
    X = torch.randn(50, 4, generator=Generator().manual_seed(0)).double() + 3
    values = torch.linalg.eigvalsh(torch.cov(X.T, correction=0)).flip(0)
    assert centred_tail(X @ X.T, 2) == pytest.approx(float(values[2:].sum()), rel=1e-9)
