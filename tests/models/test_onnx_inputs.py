"""Models of transformed inputs, of parts of the input space and of whole tables in ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Generator, Tensor, nn

from bochner.data import TableEncoder
from bochner.kernels import Gaussian, PowerExponential
from bochner.models import LandmarkModel, LogitAverage
from bochner.models.inputs import TRANSFORMS, InputTransform, TransformedModel
from bochner.models.onnx import export_onnx
from bochner.models.partition import PartitionedModel
from bochner.solvers.exact import fit_exact, fit_partition
from tests.models.test_inputs import columns
from tests.models.test_onnx_table import frame

onnx = pytest.importorskip("onnx", reason="pip install bochner[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install bochner[onnx]")

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}
both_dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def run(path: Path, feeds: dict[str, Any]) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def assert_same_scores(model: nn.Module, path: Path, X: Tensor) -> None:
    """For all rows, for one and for none."""
    expected = model(X)
    tolerance = TOLERANCE[X.dtype] * float(expected.abs().max())
    for rows in (len(X), 1, 0):
        scores = torch.as_tensor(run(path, {"X": X[:rows].numpy()})["scores"])
        torch.testing.assert_close(scores, expected[:rows], rtol=0, atol=tolerance)


def identity(num_inputs: int, dtype: torch.dtype) -> LandmarkModel:
    """Nearly exp(-|x_i|) of every input, so that the outputs reveal the inputs."""
    kernel = Gaussian(bandwidth=4.0)
    landmarks = torch.eye(num_inputs, dtype=dtype)
    return LandmarkModel(kernel, landmarks, landmarks, torch.zeros(num_inputs, dtype=dtype))


def hard_rows(X: Tensor) -> Tensor:
    """Rows of the data, beyond it, and at its ends."""
    ends = torch.stack([X.amin(dim=0), X.amax(dim=0)])
    return torch.cat([X, ends, 3 * X[:20] - 1, ends * 1e3, 1e30 * torch.ones_like(ends) * torch.tensor([[1], [-1]])])


@both_dtypes
@pytest.mark.parametrize("rows", [3, 700, 3000])
@pytest.mark.parametrize("kind", TRANSFORMS)
def test_transformations(kind: str, rows: int, dtype: torch.dtype, path: Path) -> None:
    X = columns(rows, dtype=dtype)
    transform = InputTransform.fit(kind, X)
    model = TransformedModel(transform, identity(transform.num_outputs, dtype))
    export_onnx(model, path)
    assert_same_scores(model, path, hard_rows(X))


@pytest.mark.parametrize("kind", TRANSFORMS)
@pytest.mark.parametrize("chosen", [[6, 7], [0, 1], [7, 2, 6, 0]], ids=["binary", "numbers", "mixed"])
def test_binary_and_other_columns_in_any_order(chosen: list[int], kind: str, path: Path) -> None:
    X = columns(400, dtype=torch.float32)[:, chosen].contiguous()
    transform = InputTransform.fit(kind, X)
    model = TransformedModel(transform, identity(transform.num_outputs, torch.float32))
    export_onnx(model, path)
    assert_same_scores(model, path, hard_rows(X))


@pytest.mark.parametrize("kind", TRANSFORMS)
def test_a_row_with_a_hole_has_no_score(kind: str, path: Path) -> None:
    X = columns(100, dtype=torch.float32)
    transform = InputTransform.fit(kind, X)
    export_onnx(TransformedModel(transform, identity(transform.num_outputs, torch.float32)), path)
    for column in (0, 4, 6):
        rows = X[:3].clone()
        rows[1, column] = torch.nan
        scores = run(path, {"X": rows.numpy()})["scores"]
        np.testing.assert_array_equal(np.isnan(scores).any(axis=1), [False, True, False])


def test_float64_rows_keep_their_digits_in_a_float32_model(path: Path) -> None:
    """Seconds since 1970, whose spread float32 does not resolve."""
    X = columns(300)
    transform = InputTransform.fit("both", X)
    model = TransformedModel(transform, identity(transform.num_outputs, torch.float32))
    export_onnx(model, path, dtype=torch.float64)
    scores = run(path, {"X": X.numpy()})["scores"]
    np.testing.assert_allclose(scores, model(X), rtol=0, atol=1e-5)


def problem(n: int = 600, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    X = torch.randn(n, 4, generator=generator()).to(dtype)
    return X, torch.stack([X[:, 0].sin() * 3, X[:, 1] * X[:, 2]], dim=1)


@both_dtypes
@pytest.mark.parametrize("max_rows", [400, 60])
def test_partitions(max_rows: int, dtype: torch.dtype, path: Path) -> None:
    X, Y = problem(dtype=dtype)
    model = fit_partition(PowerExponential(exponent=1.0, bandwidth=4.0), X, Y, alpha=0.1, max_rows=max_rows).model
    assert isinstance(model, PartitionedModel)
    assert len(model.models) == {400: 2, 60: 16}[max_rows]
    export_onnx(model, path)
    assert_same_scores(model, path, X)  # all leaves, then one leaf only, then none


def test_an_uneven_tree(path: Path) -> None:
    """Leaves at depths 1 to 4, in no order."""
    branches = torch.tensor([[1, -2], [-4, 2], [3, -1], [-5, -3]])
    models = [
        LandmarkModel(
            Gaussian(), torch.randn(3, 4, generator=generator(leaf)), torch.eye(3), torch.full((3,), 9.0 * leaf)
        )
        for leaf in range(5)
    ]
    directions = torch.randn(4, 4, generator=generator(9))
    model = PartitionedModel(directions, torch.tensor([0.5, -0.5, 0.2, 0.0]), branches, models)
    X = torch.randn(500, 4, generator=generator(1))
    assert len(model.leaves(X).unique()) == 5
    export_onnx(model, path)
    assert_same_scores(model, path, X)


def test_an_ensemble_of_transformed_partitions(path: Path) -> None:
    X, Y = problem()
    models = []
    for kind in ("normal", "both", "robust"):
        transform = InputTransform.fit(kind, X)
        kernel = PowerExponential(exponent=1.0, norm=1.0, bandwidth=4.0)
        fit = fit_partition(kernel, transform(X), Y, alpha=0.1, max_rows=200 if kind == "both" else 600)
        models.append(TransformedModel(transform, fit.model))
    model = LogitAverage(models)
    export_onnx(model, path)
    assert_same_scores(model, path, problem(200)[0])


def table_feeds(rows: pd.DataFrame) -> dict[str, Any]:
    return {
        "age": rows["age"].to_numpy(np.float32)[:, None],
        "job": rows["job"].fillna("").to_numpy(object)[:, None],
        "city": rows["city"].fillna("").to_numpy(object)[:, None],
        "seen": (rows["seen"] - pd.Timestamp(0)).dt.total_seconds().to_numpy(np.float64)[:, None],
    }


@pytest.mark.parametrize("kind", ["normal", "both", None])
def test_a_whole_table_model_is_one_file(kind: str | None, path: Path) -> None:
    table, new = frame()[["age", "job", "city", "seen"]], frame(150, seed=2)[["age", "job", "city", "seen"]]
    labels = (table["job"].fillna("") < "b").to_numpy().astype(int)
    encoder, X = TableEncoder.fit(table, labels, num_classes=2)
    X = torch.as_tensor(np.asarray(X), dtype=torch.float32)
    transform = None if kind is None else InputTransform.fit(kind, X)
    Z = X if transform is None else transform(X)
    kernel = PowerExponential(exponent=1.0, norm=1.0, bandwidth=1e4 if transform is None else 10.0)
    inner = fit_exact(kernel, Z, torch.as_tensor(labels)[:, None] * 8.0 - 4, alpha=0.1).model
    model = inner if transform is None else TransformedModel(transform, inner)
    export_onnx(model, path, output="logistic", classes=["no", "yes"], dtype=torch.float32, encoder=encoder)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [(put.name, put.type) for put in session.get_inputs()] == [
        ("age", "tensor(float)"),
        ("job", "tensor(string)"),
        ("city", "tensor(string)"),
        ("seen", "tensor(double)"),
    ]
    new["age"] = new["age"].astype(np.float32)
    expected = model(torch.as_tensor(encoder.encode(new), dtype=torch.float32))[:, 0]
    outputs = run(path, table_feeds(new))
    np.testing.assert_allclose(outputs["scores"][:, 0], expected, rtol=0, atol=1e-3)
    np.testing.assert_allclose(outputs["probabilities"][:, 1], expected.sigmoid(), rtol=0, atol=1e-3)
    sure = expected.abs() > 1e-2
    assert outputs["label"][sure].tolist() == [["no", "yes"][int(score > 0)] for score in expected[sure]]
    assert len(set(outputs["label"])) == 2


def test_widths_that_do_not_agree(path: Path) -> None:
    table = frame()[["age", "job"]]
    encoder, X = TableEncoder.fit(table, np.arange(200) * 1.0, num_classes=None)
    width = np.asarray(X).shape[1]
    with pytest.raises(ValueError, match=f"encoder must have the model's {width + 1} inputs, got {width}"):
        export_onnx(identity(width + 1, torch.float32), path, encoder=encoder)
    transform = InputTransform.fit("both", columns(50))
    with pytest.raises(ValueError, match="model must have the 14 outputs of transform as inputs, got 8"):
        export_onnx(TransformedModel(transform, identity(8, torch.float64)), path)
    assert not path.exists()


def test_graphs_do_not_grow_with_the_inputs(path: Path) -> None:
    sizes = []
    for num_inputs in (2, 200):
        X = torch.randn(1000, num_inputs, generator=generator())
        transform = InputTransform.fit("normal", X)
        export_onnx(TransformedModel(transform, identity(num_inputs, torch.float32)), path)
        sizes.append(len(onnx.load(path).graph.node))
    assert sizes[0] == sizes[1] < 80
