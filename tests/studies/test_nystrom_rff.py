"""Data sets as the chapter prepares them, cells on them, and kernel errors against loops over pairs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Generator

from bochner.features import FourierMap, NystromMap
from bochner.kernels import Gaussian
from bochner.studies.nystrom_rff import (
    ERROR_EDGES,
    KMEANS,
    LARGE,
    NYSTROM,
    OUTLIER,
    RFF,
    Cell,
    make_map,
    measure_errors,
    memory,
    prepare,
)
from bochner.studies.nystrom_rff_data import load
from bochner.studies.workers import Context


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, random = tmp_path_factory.mktemp("tasks"), np.random.default_rng(0)
    X = np.c_[random.normal(5, 3, 400), random.integers(0, 2, 400), np.ones(400)].astype(np.float32)
    np.savez(folder / "cpu_rahimi.npz", X_train=X, y_train=(X[:, 0] + 100).astype(np.float32))
    np.savez(folder / "a9a.npz", X_train=X, y_train=np.where(X[:, 0] > 5, 1, -1))
    return folder


def test_inputs_are_standardised_but_for_binary_ones(data_dir: Path) -> None:
    parts = load("cpu", data_dir, num_rows=None)
    assert (len(parts.train.X), len(parts.heldout.X)) == (360, 40)
    np.testing.assert_allclose(parts.train.X[:, 0].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(parts.train.X[:, 0].std(), 1, atol=1e-5)
    assert set(parts.train.X[:, 1].tolist()) == {0.0, 1.0}
    assert abs(float(parts.train.y.mean())) < 1e-3  # centred by the training rows
    assert parts.num_classes is None


def test_classes_are_numbered_and_rows_are_few_where_asked(data_dir: Path) -> None:
    parts = load("a9a", data_dir, num_rows=50)
    assert (len(parts.train.X), parts.num_classes) == (50, 2)
    assert set(parts.train.y.tolist()) == {0, 1}


@pytest.mark.parametrize("data", ["cpu", "a9a"])
def test_a_cell_learns_and_can_be_stored(data_dir: Path, data: str) -> None:
    cell = Cell(data, NYSTROM, 16, 300, 40, 4, seed=0)
    result = prepare(Context(data_dir))(cell)
    assert result["loss"] < 0.7 * result["start_loss"]
    assert json.loads(json.dumps(result)) == result
    assert (
        result["performance"] == pytest.approx(result["loss"] ** 0.5) if data == "cpu" else result["performance"] < 0.3
    )


def test_maps_and_their_memory() -> None:
    X = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    rff, nystrom, kmeans = (make_map(Cell("a9a", kind, 8, None, 1, 1, seed=0), X) for kind in (RFF, NYSTROM, KMEANS))
    assert isinstance(rff, FourierMap)
    assert rff.form == "cosine"
    assert (memory(rff), memory(nystrom)) == (40, 40 + 64)
    assert isinstance(nystrom, NystromMap)
    assert isinstance(kmeans, NystromMap)
    assert all((landmark == X).all(dim=1).any() for landmark in nystrom.landmarks)
    assert not all((landmark == X).all(dim=1).any() for landmark in kmeans.landmarks)
    assert rff.kernel.bandwidth == pytest.approx((2 * 0.1) ** -0.5)  # type: ignore[attr-defined]


def test_a_frame_has_the_phone_in_the_middle_of_its_window() -> None:
    """Windows of 25 ms every 10 ms: the middles are 12.5, 22.5, 32.5 ms, and the last frame may end late."""
    pytest.importorskip("kaldi_native_fbank", reason="the speech extra is not installed")
    from bochner.speech.manifest import Segment, Utterance
    from bochner.speech.score.protocol import PHONES_48
    from bochner.studies.nystrom_rff_data import frame_labels

    phones = (Segment("sil", 0.0, 0.02), Segment("sh", 0.02, 0.03), Segment("iy", 0.03, 0.05))
    utterance = Utterance(
        id="u", speaker="s", part="train", text="sil sh iy", audio="u.wav", rate=16000, duration=0.05, phones=phones
    )
    labels = frame_labels(utterance, 5)
    assert [PHONES_48[label] for label in labels] == ["sil", "sh", "iy", "iy", "iy"]


@pytest.fixture(scope="module")
def X() -> torch.Tensor:
    return torch.randn(40, 2, generator=Generator().manual_seed(0)).double()


def test_moments_powers_and_histograms_are_those_of_all_pairs(X: torch.Tensor) -> None:
    z = NystromMap.fit(Gaussian(), X, num_landmarks=4, generator=Generator().manual_seed(0))
    found = measure_errors(z, X)
    pairs = [(i, j) for i in range(40) for j in range(i)]
    values = [float(torch.exp(-(X[i] - X[j]).square().sum() / 2)) for i, j in pairs]
    errors = [k - float(z(X[i : i + 1])[0] @ z(X[j : j + 1])[0]) for k, (i, j) in zip(values, pairs, strict=True)]
    large = [error for k, error in zip(values, errors, strict=True) if k >= LARGE]
    assert 100 < len(large) < 600
    assert found["large_bias"] == pytest.approx(sum(large) / len(large), rel=1e-9)
    assert found["large_mse"] == pytest.approx(sum(e * e for e in large) / len(large), rel=1e-9)
    assert found["large_mse"] == pytest.approx(found["large_bias"] ** 2 + found["large_variance"], rel=1e-9)
    assert found["large_outliers"] == pytest.approx(sum(e > OUTLIER for e in large) / len(large))
    assert found["power_3.5"] == pytest.approx(sum(abs(e) ** 3.5 for e in errors) / len(errors), rel=1e-9)
    middle = [float(ERROR_EDGES[10]), float(ERROR_EDGES[11])]
    assert found["large_histogram"][10] == pytest.approx(sum(middle[0] <= e < middle[1] for e in large) / len(large))
    assert sum(found["small_histogram"]) == pytest.approx(1)
    assert found["norm"] == pytest.approx(float(z(X).square().sum(dim=1).mean()))


def test_errors_at_large_values_are_none_if_there_are_none(X: torch.Tensor) -> None:
    z = NystromMap.fit(Gaussian(bandwidth=1e-3), X, num_landmarks=4, generator=Generator().manual_seed(0))
    found = measure_errors(z, X)
    assert (found["large_mse"], found["large_bias"], found["large_histogram"]) == (None, None, None)
    assert found["small_mse"] == found["mse"]
