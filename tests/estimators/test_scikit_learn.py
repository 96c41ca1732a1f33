"""scikit-learn's own checks, over every estimator and every option that changes what is computed."""

from __future__ import annotations

import inspect

from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import bochner
from bochner import ArcCosineFeatures, FourierFeatures, NystromFeatures, TensorSketchFeatures
from bochner.features import LANDMARK_RULES, PROJECTION_NAMES
from bochner.kernels import KERNEL_NAMES, Gaussian, Laplacian

PUBLIC = [thing for thing in vars(bochner).values() if inspect.isclass(thing) and issubclass(thing, BaseEstimator)]

VARIANTS = [
    *[FourierFeatures(kernel=name, num_features=32) for name in KERNEL_NAMES if name != "gaussian"],
    *[FourierFeatures(projection=name, num_features=32) for name in PROJECTION_NAMES if name not in ("auto", "sparse")],
    FourierFeatures(form="cosine", num_features=31, bandwidth="mean"),
    FourierFeatures(kernel=Gaussian(bandwidth=2.0) + Laplacian(bandwidth=3.0), num_features=32),
    *[NystromFeatures(landmarks=rule, num_landmarks=5) for rule in LANDMARK_RULES],
    ArcCosineFeatures(num_features=32, order=0, depth=2),
    TensorSketchFeatures(num_features=32, degree=3, offset=0.0),
]


@parametrize_with_checks([cls() for cls in PUBLIC])
def test_defaults(estimator, check) -> None:
    check(estimator)


@parametrize_with_checks(VARIANTS)
def test_variants(estimator, check) -> None:
    check(estimator)


def test_every_public_estimator_is_checked() -> None:
    assert {cls.__name__ for cls in PUBLIC} >= {
        "FourierFeatures",
        "NystromFeatures",
        "ArcCosineFeatures",
        "TensorSketchFeatures",
    }
