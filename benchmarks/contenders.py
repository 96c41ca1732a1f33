"""The models that are compared: ours, scikit-learn's kernel pipelines, and gradient-boosted trees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline

import bochner

Build = Callable[[float, int, int], Any]  # bandwidth, number of features, seed


@dataclass(frozen=True)
class Contender:
    name: str
    build: Build
    seeds: int = 1


def _gamma(bandwidth: float) -> float:
    return 1 / (2 * bandwidth**2)


def ours(seeds: int = 3, **settings: Any) -> Contender:
    """The classifier without a search, with the common bandwidth; `settings` are part of the name."""
    shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def build(bandwidth: float, num_features: int, seed: int) -> Any:
        shared = {"preset": None, "bandwidth": bandwidth, "n_components": num_features}
        return bochner.KernelClassifier(**{**shared, "random_state": seed, "verbose": False, **settings})

    return Contender(f"KernelClassifier({shown})", build, seeds)


def our_regressor(seeds: int = 3, **settings: Any) -> Contender:
    shown = ", ".join(f"{name}={value!r}" for name, value in settings.items())

    def build(bandwidth: float, num_features: int, seed: int) -> Any:
        shared = {"preset": None, "bandwidth": bandwidth, "n_components": num_features}
        return bochner.KernelRegressor(**{**shared, "random_state": seed, "verbose": False, **settings})

    return Contender(f"KernelRegressor({shown})", build, seeds)


def fourier(head: Any, name: str, seeds: int = 1) -> Contender:
    def build(bandwidth: float, num_features: int, seed: int) -> Any:
        sampler = RBFSampler(gamma=_gamma(bandwidth), n_components=num_features, random_state=seed)
        return make_pipeline(sampler, head)

    return Contender(f"RBFSampler + {name}", build, seeds)


def nystroem(head: Any, name: str, *, components: int | None = None) -> Contender:
    def build(bandwidth: float, num_features: int, seed: int) -> Any:
        count = components or num_features
        return make_pipeline(Nystroem(gamma=_gamma(bandwidth), n_components=count, random_state=seed), head)

    size = "" if components is None else f"({components:,})"
    return Contender(f"Nystroem{size} + {name}", build)


def _lightgbm(kind: str) -> Contender:
    def build(bandwidth: float, num_features: int, seed: int) -> Any:
        import lightgbm

        return getattr(lightgbm, kind)(n_jobs=-1, verbosity=-1, random_state=seed)

    return Contender("LightGBM", build)


LOGISTIC = fourier(LogisticRegression(), "LogisticRegression", seeds=3)
LOOSE = fourier(LogisticRegression(C=100), "LogisticRegression(C=100)")
TREES = Contender("HistGradientBoosting", lambda *_: HistGradientBoostingClassifier(random_state=0))
CLASSIFIERS = [ours(), ours(adapt="agop"), LOGISTIC, LOOSE, TREES, _lightgbm("LGBMClassifier")]
NYSTROEM = [
    nystroem(LogisticRegression(), "LogisticRegression"),
    nystroem(LogisticRegression(C=100), "LogisticRegression(C=100)"),
]

CONTENDERS: dict[str, list[Contender]] = {
    # Nystroem computes an SVD of its landmarks' matrix: on one set only
    "mnist": [ours(), fourier(LogisticRegression(), "LogisticRegression"), TREES, _lightgbm("LGBMClassifier")],
    "a9a": CLASSIFIERS,
    "ijcnn1": CLASSIFIERS,
    "covtype": [*CLASSIFIERS, *NYSTROEM],
    "made": [
        ours(),
        ours(validation_fraction=0.05, solver_params={"projection": "hadamard3"}),
        ours(adapt="agop"),
        ours(adapt="agop", n_components=16384),
        ours(adapt="agop", solver="newton"),
        ours(adapt="agop", solver="landmarks", n_components=8192),
        ours(solver="landmarks"),
        ours(solver="newton"),
        LOGISTIC,
        fourier(SGDClassifier(loss="log_loss", n_jobs=-1, random_state=0), "SGDClassifier"),
        nystroem(RidgeClassifier(), "RidgeClassifier", components=1000),
        TREES,
        _lightgbm("LGBMClassifier"),
    ],
}
REGRESSORS = [
    our_regressor(),
    fourier(Ridge(alpha=1e-3), "Ridge(1e-3)"),
    nystroem(Ridge(alpha=1e-3), "Ridge(1e-3)", components=1000),
    Contender("HistGradientBoosting", lambda *_: HistGradientBoostingRegressor(random_state=0)),
    _lightgbm("LGBMRegressor"),
]
