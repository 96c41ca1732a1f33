"""`bochner approximate`: the stored factor and the reported errors, compared with dense matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bochner
from bochner.lowrank import LOWRANK_METHODS as METHODS
from bochner.lowrank import Factor
from tests.cli.files import rings, rings_csv, run

Capture = pytest.CaptureFixture[str]


def dense_kernel(X: np.ndarray[Any, Any], bandwidth: float) -> np.ndarray[Any, Any]:
    squares = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    result: np.ndarray[Any, Any] = np.exp(-squares / (2 * bandwidth**2))
    return result


def load(path: Path) -> Factor:
    factor = bochner.load(path)
    assert isinstance(factor, Factor)
    return factor


def rows_of(folder: Path) -> dict[str, dict[str, Any]]:
    content = json.loads((folder / "approximation.json").read_text())
    return {row["method"]: row for row in content["methods"]}


def test_the_factor_is_kept_and_its_errors_are_those_of_the_whole_matrix(tmp_path: Path, capsys: Capture) -> None:
    data, out = rings_csv(tmp_path / "rings.csv", 150), tmp_path / "out"
    words = ("approximate", data, "--target", "ring", "--rank", 5, "--bandwidth", 0.5, "--output_dir", out)
    code, printed, _ = run(capsys, *words)
    assert code == 0
    assert "150 points, 2 inputs" in printed
    factor, row = load(out / "nystrom_factor.safetensors"), rows_of(out)["nystrom"]
    U = factor.root.numpy()
    K = dense_kernel(rings(150)[0], 0.5)
    values = np.linalg.eigvalsh(U @ U.T)[::-1]
    assert row["spectral"]["value"] == pytest.approx(np.linalg.norm(K - U @ U.T, 2), rel=1e-6)
    assert row["frobenius"]["value"] == pytest.approx(np.linalg.norm(K - U @ U.T), rel=1e-6)
    assert row["trace"]["value"] == pytest.approx(np.trace(K - U @ U.T), rel=1e-6)
    assert row["condition_number"] == pytest.approx(values[0] / values[4], rel=1e-6)
    assert row["stable_rank"] == pytest.approx((values**2).sum() / values[0] ** 2, rel=1e-6)
    assert (row["rank"], row["parameters"]) == (5, 750)
    assert f"stable rank {(K**2).sum() / np.linalg.norm(K, 2) ** 2:.3g}" in printed


def test_all_methods_are_compared_and_none_is_kept(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rings_csv(tmp_path / "rings.csv", 120)
    code, printed, _ = run(capsys, "approximate", "rings.csv", "--target", "ring", "--rank", 8, "--method", "all")
    assert code == 0
    errors = {
        words[0]: float(words[4])
        for line in printed.splitlines()
        if (words := line.split())[:1] and words[0] in METHODS
    }
    assert list(errors) == list(METHODS)
    assert all(error >= 0.99 * errors["svd"] for method, error in errors.items() if method != "meka")
    assert errors["fourier"] > 5 * errors["svd"]
    assert not Path("out").exists()


def test_all_with_a_folder_keeps_every_factor(tmp_path: Path, capsys: Capture) -> None:
    data, out = rings_csv(tmp_path / "rings.csv", 60), tmp_path / "out"
    run(capsys, "approximate", data, "--target", "ring", "--rank", 4, "--method", "all", "--output_dir", out)
    assert list(rows_of(out)) == list(METHODS)
    assert all(load(out / f"{method}_factor.safetensors").num_points == 60 for method in METHODS)


def test_a_method_that_cannot_be_fitted_is_skipped_or_an_error(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 41)  # an ensemble takes 40 landmarks of these
    words = ("approximate", data, "--target", "ring", "--rank", 41, "--output_dir", tmp_path / "out")
    code, printed, complaint = run(capsys, *words, "--method", "all")
    assert code == 0
    assert "warning: ensemble is skipped: num_landmarks must be at least the rank, 41, got 40." in complaint
    assert "\npivoted-cholesky" in printed
    code, _, complaint = run(capsys, *words, "--method", "ensemble")
    assert (code, complaint) == (1, "bochner: error: num_landmarks must be at least the rank, 41, got 40.\n")


def test_inputs_are_standardized_and_chosen_by_name(tmp_path: Path, capsys: Capture) -> None:
    data, out = rings_csv(tmp_path / "rings.csv", 50), tmp_path / "out"
    options = ("--columns", "north", "--standardize", "--bandwidth", 0.7, "--method", "svd", "--output_dir", out)
    assert run(capsys, "approximate", data, "--rank", 3, *options).code == 0
    x = rings(50)[0][:, 1:]
    values = np.linalg.eigvalsh(dense_kernel((x - x.mean()) / x.std(), 0.7))[::-1]
    assert rows_of(out)["svd"]["spectral"]["value"] == pytest.approx(values[3], rel=1e-4)


def test_the_default_bandwidth_is_the_median_rule(tmp_path: Path, capsys: Capture) -> None:
    data = tmp_path / "rings.npz"
    X, y = rings(80)
    np.savez(data, X=X, y=y)
    out = run(capsys, "approximate", data, "--rank", 3, "--output_dir", tmp_path / "out").out
    median = float(torch.nn.functional.pdist(torch.from_numpy(X)).square().median())
    assert f"Gaussian(bandwidth={(median / 2) ** 0.5}), bandwidth by the median rule" in out


def test_kernels_by_alias_and_without_a_bandwidth(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 40)
    words = ("approximate", data, "--target", "ring", "--rank", 3, "--overwrite", "--output_dir", tmp_path / "out")
    for name, shown in (("rbf", "Gaussian"), ("polynomial", "Polynomial")):
        assert run(capsys, *words, "--kernel", name).code == 0
        assert json.loads((tmp_path / "out" / "approximation.json").read_text())["kernel"].startswith(shown)
    code, _, complaint = run(capsys, *words, "--kernel", "guassian")
    assert code == 1
    assert "guassian" in complaint
    assert "gaussian" in complaint


def test_a_stored_factor_is_not_overwritten(tmp_path: Path, capsys: Capture) -> None:
    data, out = rings_csv(tmp_path / "rings.csv", 40), tmp_path / "out"
    words = ("approximate", data, "--target", "ring", "--rank", 3, "--output_dir", out)
    assert run(capsys, *words).code == 0
    code, _, complaint = run(capsys, *words)
    assert (code, complaint.count("\n")) == (1, 1)
    assert "nystrom_factor.safetensors exists; choose another --output_dir, or give --overwrite." in complaint
    assert run(capsys, *words, "--overwrite").code == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--rank", 99), 1, "rank must be at most the number of points, 40, got 99"),
        (("--rank", 99, "--method", "all"), 1, "rank must be at most the number of points, 40, got 99"),
        (("--rank", 0), 1, "rank must be"),
        (("--rank", 3, "--bandwidth", -1), 1, "bandwidth"),
        (("--rank", 3, "--method", "qr"), 2, "method"),
        ((), 2, "rank"),
    ],
)
def test_errors_take_one_line(
    options: tuple[object, ...], code: int, words: str, tmp_path: Path, capsys: Capture
) -> None:
    data = rings_csv(tmp_path / "rings.csv", 40)
    found = run(capsys, "approximate", data, "--target", "ring", "--output_dir", tmp_path / "out", *options)
    assert (found.code, found.err.count("\n")) == (code, 1)
    assert words in found.err
    assert not (tmp_path / "out").exists()
