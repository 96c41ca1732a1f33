"""Exported files: ONNX Runtime gives the outputs of the model, for every kind of model."""

import copy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Generator, Tensor, nn

from bochner.features import FourierMap, TensorSketchMap
from bochner.features.map import FeatureMap
from bochner.kernels import ArcCosine, Gaussian, Kernel, Laplacian, Polynomial
from bochner.models import BottleneckHead, FeatureModel, LandmarkModel, LinearHead, LogitAverage
from bochner.models.network import Network
from bochner.models.onnx import export_onnx, graph
from bochner.storage import Storable
from tests.features import cases as maps
from tests.kernels import cases as kernels

onnx = pytest.importorskip("onnx", reason="pip install bochner[onnx]")
onnxruntime = pytest.importorskip("onnxruntime", reason="pip install bochner[onnx]")

NUM_FEATURES, NUM_OUTPUTS = 24, 5
# of the largest score: float32 is what is promised, float64 shows that no part of a graph falls back to float32
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}

both_dtypes = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


def linear(dtype: torch.dtype = torch.float32, *, inputs: int = NUM_FEATURES, outputs: int = NUM_OUTPUTS) -> LinearHead:
    return LinearHead(normal(outputs, inputs, seed=1, dtype=dtype), normal(outputs, seed=2, dtype=dtype))


def bottleneck(dtype: torch.dtype) -> BottleneckHead:
    first, second = normal(3, NUM_FEATURES, seed=1, dtype=dtype), normal(NUM_OUTPUTS, 3, seed=3, dtype=dtype)
    return BottleneckHead(first, second, normal(NUM_OUTPUTS, seed=2, dtype=dtype))


def fourier_model(outputs: int = NUM_OUTPUTS, dtype: torch.dtype = torch.float32) -> FeatureModel:
    z = FourierMap.draw(Gaussian(), num_inputs=6, num_features=NUM_FEATURES, generator=seeded(), dtype=dtype)
    return FeatureModel(z, linear(dtype, outputs=outputs))


def landmark_model(kernel: Kernel, landmarks: Tensor) -> LandmarkModel:
    coefficients = normal(len(landmarks), NUM_OUTPUTS, seed=1, dtype=landmarks.dtype)
    return LandmarkModel(kernel, landmarks, coefficients, normal(NUM_OUTPUTS, seed=2, dtype=landmarks.dtype))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.onnx"


def run(path: Path, X: Tensor) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": X.numpy()}), strict=True))


def assert_same_scores(model: nn.Module, path: Path, X: Tensor) -> None:
    """For all rows, for one and for none, relative to the largest score, in the dtype of X."""
    with torch.no_grad():
        expected = model(X)
    tolerance = TOLERANCE[X.dtype] * float(expected.abs().max())
    for rows in (len(X), 1, 0):
        got = torch.as_tensor(run(path, X[:rows])["scores"])
        torch.testing.assert_close(got, expected[:rows], rtol=0, atol=tolerance)


# -- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "dtype"), [(linear, torch.float32), (linear, torch.float64), (bottleneck, torch.float32)]
)
@pytest.mark.parametrize("case", maps.CASES, ids=str)
def test_every_map_and_head(case: maps.Case, head: Callable[..., Any], dtype: torch.dtype, path: Path) -> None:
    z = case.make(case.kernel, maps.points(100, dtype=dtype), NUM_FEATURES, seeded())
    model = FeatureModel(z, head(dtype))
    export_onnx(model, path)
    assert_same_scores(model, path, maps.points(1000, seed=1, dtype=dtype))


@both_dtypes
@kernels.every_kernel
def test_every_kernel_on_landmarks(case: kernels.Case, dtype: torch.dtype, path: Path) -> None:
    model = landmark_model(case.kernel, kernels.points(20).to(dtype))
    export_onnx(model, path)
    assert_same_scores(model, path, kernels.points(1000, seed=1).to(dtype))


@kernels.every_kernel
def test_at_the_landmarks_themselves(case: kernels.Case, path: Path) -> None:
    """Rounding may leave a negative square or a cosine above 1, which have no root and no angle."""
    landmarks = kernels.points(100).float()
    model = landmark_model(case.kernel, landmarks)
    export_onnx(model, path)
    if case.name in {"arc-cosine0", "arc-cosine0-depth3"}:  # a kink: float32 itself is off here
        assert np.isfinite(run(path, landmarks)["scores"]).all()
    else:
        assert_same_scores(model, path, landmarks)


@both_dtypes
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_networks(activation: str, rank: int | None, dtype: torch.dtype, path: Path) -> None:
    network = Network.draw(
        num_inputs=6, hidden=[8, 7], num_outputs=4, activation=activation, rank=rank, generator=seeded(), dtype=dtype
    )
    network = network.replace(biases=[normal(8, dtype=dtype), normal(7, seed=1, dtype=dtype)])
    export_onnx(network, path)
    assert_same_scores(network, path, normal(1000, 6, dtype=dtype))


@both_dtypes
@pytest.mark.parametrize("dilations", [(), (1,), (1, 1)])
@pytest.mark.parametrize("residual", [False, True])
def test_modern_networks(residual: bool, dilations: tuple[int, ...], dtype: torch.dtype, path: Path) -> None:
    network = Network.draw(
        num_inputs=30,
        hidden=[6, 6, 6, 7],
        num_outputs=4,
        activation="relu",
        batch_norm=True,
        dropout=0.5,
        residual=residual,
        dilations=dilations,
        generator=seeded(),
        dtype=dtype,
    )
    X = normal(1000, 30, dtype=dtype)
    network.fit_statistics(2 * X + 1)
    export_onnx(network, path)
    assert_same_scores(network, path, X)


@both_dtypes
def test_cosines_of_time_delay_layers(dtype: torch.dtype, path: Path) -> None:
    """What a convolutional kernel becomes."""
    weights, biases = (
        [normal(8, 18, dtype=dtype), normal(7, 24, dtype=dtype)],
        [normal(8, dtype=dtype), normal(7, dtype=dtype)],
    )
    network = Network(weights, biases, "cosine", linear(inputs=7, dtype=dtype), dilations=(1, 1))
    export_onnx(network, path)
    assert_same_scores(network, path, normal(1000, 30, dtype=dtype))


@both_dtypes
def test_gelu_is_rounded_to_float32_in_any_dtype(dtype: torch.dtype, path: Path) -> None:
    network = Network.draw(
        num_inputs=6, hidden=[8, 7], num_outputs=4, activation="gelu", generator=seeded(), dtype=dtype
    )
    export_onnx(network, path)
    X = normal(1000, 6, dtype=dtype)
    np.testing.assert_allclose(run(path, X)["scores"], network(X).detach().numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_features", [1, 2, 7])
def test_a_sketch_of_any_width(num_features: int, path: Path) -> None:
    z = TensorSketchMap.draw(Polynomial(degree=3), num_inputs=6, num_features=num_features, generator=seeded())
    model = FeatureModel(z, linear(inputs=num_features))
    export_onnx(model, path)
    assert_same_scores(model, path, normal(100, 6))


def test_averages_of_different_models(path: Path) -> None:
    """A landmark model that was solved in float64 beside models in float32, on rows in float32."""
    landmarks = landmark_model(Gaussian(bandwidth=2.0), normal(20, 6, dtype=torch.float64))
    network = Network.draw(num_inputs=6, hidden=[8], num_outputs=NUM_OUTPUTS, generator=seeded())
    model = LogitAverage([fourier_model(), LogitAverage([landmarks, network])])
    export_onnx(model, path, dtype=torch.float32)
    assert_same_scores(model, path, normal(1000, 6))
    export_onnx(model, path)
    assert run(path, normal(2, 6, dtype=torch.float64))["scores"].dtype == np.float64


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_an_angle_with_the_zero_vector(order: int, depth: int, path: Path) -> None:
    landmarks = normal(4, 6, dtype=torch.float64)
    landmarks[0] = 0
    model = landmark_model(ArcCosine(order=order, depth=depth), landmarks)
    export_onnx(model, path)
    assert_same_scores(model, path, torch.cat([torch.zeros(1, 6), normal(5, 6, seed=1)]).double())


def test_angles_near_0_and_pi_keep_the_digits_of_float64(path: Path) -> None:
    """Where the float32 start is worst: 1 - cos is 1e-7 and less."""
    angles = torch.tensor([1e-3, 3e-4, 1e-4, 1e-5], dtype=torch.float64)
    angles = torch.cat([angles, torch.pi - angles])
    X = torch.stack([angles.cos(), angles.sin()], dim=1)
    model = LandmarkModel(ArcCosine(order=0), X.new_tensor([[1.0, 0.0]]), X.new_ones(1, 1), X.new_zeros(1))
    export_onnx(model, path)
    got = run(path, X)["scores"][:, 0]
    np.testing.assert_allclose(got, 1 - angles.numpy() / np.pi, rtol=0, atol=1e-11)


@kernels.every_kernel
def test_a_row_with_a_hole_has_no_score(case: kernels.Case, path: Path) -> None:
    model = landmark_model(case.kernel, kernels.points(20).float())
    export_onnx(model, path)
    X = kernels.points(3, seed=1).float()
    X[1, 2] = torch.nan
    np.testing.assert_array_equal(np.isnan(run(path, X)["scores"]).any(axis=1), [False, True, False])


def test_graphs_do_not_grow_with_the_inputs(path: Path) -> None:
    sizes = []
    for num_inputs in (3, 300):
        export_onnx(landmark_model(Laplacian(), normal(4, num_inputs)), path)
        sizes.append(len(onnx.load(path).graph.node))
    assert sizes[0] == sizes[1] < 20


# -- what comes out --------------------------------------------------------------------------------------------------


def test_softmax_probabilities(path: Path) -> None:
    model, X = fourier_model(), normal(1000, 6)
    export_onnx(model, path, output="softmax")
    found = run(path, X)
    assert list(found) == ["probabilities", "scores"]
    np.testing.assert_allclose(found["probabilities"], model(X).softmax(dim=1).detach(), rtol=0, atol=1e-5)


def test_logistic_probabilities(path: Path) -> None:
    model, X = fourier_model(outputs=1), normal(1000, 6)
    export_onnx(model, path, output="logistic", classes=["no", "yes"])
    found = run(path, X)
    expected = model(X).sigmoid().detach()
    np.testing.assert_allclose(found["probabilities"], torch.cat([1 - expected, expected], dim=1), rtol=0, atol=1e-5)
    assert found["label"].tolist() == ["yes" if p > 0.5 else "no" for p in expected[:, 0]]


def test_clipped_probabilities(path: Path) -> None:
    """For least squares on one-hot labels; a row of only negative scores is undetermined."""
    model = LandmarkModel(Polynomial(degree=1, offset=0.0), torch.eye(3), torch.eye(3), torch.zeros(3))
    export_onnx(model, path, output="clipped", classes="abc")
    found = run(path, torch.tensor([[0.5, 0.1, 0.4], [1.5, -0.5, 0.5], [-1.0, -1.0, -1.0]]))
    expected = [[0.5, 0.1, 0.4], [1.5 / 2.0001, 1e-4 / 2.0001, 0.5 / 2.0001], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-5)
    assert found["label"].tolist() == ["a", "a", "a"]


def test_a_barely_positive_score_is_the_second_class(path: Path) -> None:
    """Both probabilities round to 1 / 2: the label goes by the score, and 0 is the first class as in scikit-learn."""
    model = LandmarkModel(Polynomial(degree=1, offset=0.0), torch.ones(1, 1), torch.ones(1, 1), torch.zeros(1))
    export_onnx(model, path, output="logistic", classes=[3, 8])
    assert run(path, torch.tensor([[1e-20], [0.0], [-1e-20]]))["label"].tolist() == [8, 3, 3]


@pytest.mark.parametrize("output", ["scores", "softmax", "clipped"])
@pytest.mark.parametrize(
    ("classes", "kind"),
    [
        ([30, -1, 7, 2**40, 0], np.int64),
        (["a", "b", "ß", "d", "e e"], object),
        (np.array([5, 4, 3, 2, 1]), np.int64),
        (np.array(["v", "w", "x", "y", "z"]), object),
        (range(5), np.int64),
    ],
    ids=str,
)
def test_labels(output: str, classes: Any, kind: type, path: Path) -> None:
    model, X = fourier_model(), normal(1000, 6)
    export_onnx(model, path, output=output, classes=classes)
    found = run(path, X)
    assert found["label"].dtype == kind
    assert found["label"].tolist() == [classes[i] for i in model(X).argmax(dim=1)]
    assert len(set(found["label"])) == 5


def test_names_and_shapes_are_those_of_skl2onnx(path: Path) -> None:
    export_onnx(fourier_model(), path, output="softmax", classes=list("abcde"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    described = [(each.name, each.type, each.shape) for each in (*session.get_inputs(), *session.get_outputs())]
    assert described == [
        ("X", "tensor(float)", ["N", 6]),
        ("label", "tensor(string)", ["N"]),
        ("probabilities", "tensor(float)", ["N", 5]),
        ("scores", "tensor(float)", ["N", 5]),
    ]


@pytest.mark.parametrize("given", TOLERANCE, ids=str)
@both_dtypes
def test_rows_in_another_dtype(dtype: torch.dtype, given: torch.dtype, path: Path) -> None:
    model = fourier_model(dtype=dtype)
    export_onnx(model, path, output="softmax", classes=range(5), dtype=given)
    X = normal(100, 6).to(given)
    found = run(path, X)
    expected = model(X.to(dtype)).detach().to(given)
    torch.testing.assert_close(torch.as_tensor(found["scores"]), expected, rtol=0, atol=1e-5)
    assert found["probabilities"].dtype == found["scores"].dtype
    assert found["label"].tolist() == expected.argmax(dim=1).tolist()


def test_half_precision_only_stores(path: Path) -> None:
    model = fourier_model().bfloat16()
    export_onnx(model, path)
    assert_same_scores(copy.deepcopy(model).float(), path, normal(100, 6))


# -- the file --------------------------------------------------------------------------------------------------------


def test_the_file_says_what_it_is(path: Path) -> None:
    model = fourier_model()
    export_onnx(model, path)
    stored = onnx.load(path)
    assert (stored.producer_name, stored.doc_string) == ("bochner", repr(model))
    assert stored.producer_version
    assert [(each.domain, each.version) for each in stored.opset_import] == [("", 13)]


@pytest.mark.parametrize("kind", [str, Path])
def test_an_interrupted_export_leaves_the_old_file(kind: type, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    export_onnx(fourier_model(), kind(path))
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        export_onnx(fourier_model(outputs=2), kind(path))
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_a_model_beyond_the_format(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "MAX_BYTES", 500)
    with pytest.raises(ValueError, match=r"model has more than \d+ bytes of weights, .* ends at 500; .*bottleneck"):
        export_onnx(fourier_model(), path)
    assert not path.exists()


# -- bad input -------------------------------------------------------------------------------------------------------


def test_models_without_an_onnx_form(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Storable, "registry", {})  # the classes below must not stay in it

    class OddKernel(Kernel): ...

    class OddMap(FeatureMap):
        def __init__(self) -> None:
            super().__init__()
            self.num_inputs = 6

    for model, message in [
        (nn.Linear(6, 5), "a FeatureModel, LandmarkModel, .* or TransformedModel, got Linear"),
        (LogitAverage([fourier_model(), nn.Linear(6, 5)]), "got Linear"),
        (landmark_model(OddKernel(), normal(4, 6)), r"kernel that has no ONNX form, OddKernel\(\); use one of"),
        (FeatureModel(OddMap(), linear()), r"map that has no ONNX form, OddMap\(\); use one of bochner\.features"),
    ]:
        with pytest.raises(TypeError, match=message):
            export_onnx(model, path)
    assert not path.exists()


def test_an_average_of_models_that_do_not_agree(path: Path) -> None:
    with pytest.raises(ValueError, match=r"models must agree in inputs and outputs, got \[\(6, 5\), \(6, 2\)\]"):
        export_onnx(LogitAverage([fourier_model(), fourier_model(outputs=2)]), path)


@pytest.mark.parametrize(
    ("outputs", "arguments", "message"),
    [
        (
            5,
            {"output": "probit"},
            r"output must be one of \['scores', 'softmax', 'logistic', 'clipped', 'sigmoid'\], got 'probit'",
        ),
        (5, {"output": "logistic"}, "output='logistic' needs a model with one score per row, got 5; use 'softmax'"),
        (1, {"output": "softmax"}, "output='softmax' needs a model with several scores per row, got 1; use 'logistic'"),
        (1, {"output": "clipped"}, "output='clipped' needs a model with several scores per row, got 1"),
        (1, {"classes": [0, 1]}, "classes need several scores per row, got 1; use output='logistic'"),
        (5, {"classes": [0, 1]}, r"classes must be 5 different ones, one per probability, got \[0, 1\]"),
        (1, {"output": "logistic", "classes": [0]}, "classes must be 2 different ones"),
        (5, {"classes": ["a", "a", "b", "c", "d"]}, "classes must be 5 different ones"),
        (5, {"classes": ["a", 1, 2, 3, 4]}, "classes must be all integers or all strings, got"),
        (5, {"classes": [0.5, 1.5, 2.0, 3.0, 4.0]}, "classes must be all integers or all strings, got"),
        (1, {"output": "logistic", "classes": [False, True]}, "classes must be all integers or all strings, got"),
        (5, {"output": "sigmoid", "classes": [0, 1]}, r"classes must be None for output='sigmoid', .* got \[0, 1\]"),
        (5, {"dtype": torch.float16}, r"dtype must be one of \[torch\.float32, torch\.float64\], got torch\.float16"),
    ],
    ids=str,
)
def test_bad_arguments(outputs: int, arguments: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        export_onnx(fourier_model(outputs), path, **arguments)
    assert not path.exists()


def test_without_onnx(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "onnx"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'bochner\[onnx\]'"):
        export_onnx(fourier_model(), path)
