"""The models that are compared, each used as its documentation recommends.

All run at their library's defaults. Those that can stop early do: they get up to 1,000 rounds (CatBoost's default) and
a validation part of the training rows. Nothing is refitted on all rows unless the name ends in "-refit".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from benchmarks.tabular.encoding import MISSING, Categories, Matrix, text_columns, with_date_parts
from benchmarks.tabular.tables import Kind

Array = NDArray[Any]

MAX_ROUNDS = 1000
PATIENCE = 50  # rounds without improvement; CatBoost's documentation and most studies use 50
HIST_LEVELS = 255  # HistGradientBoosting has no more bins


class Model(Protocol):
    """The model of a contender: `predict` returns numbers, class codes [n], or codes per label [n, L]."""

    def fit(self, X: pd.DataFrame, y: Array) -> Any: ...

    def predict(self, X: pd.DataFrame) -> Array: ...


@dataclass(frozen=True)
class Setting:
    """The arguments of every model."""

    kind: Kind
    num_classes: int
    seed: int
    threads: int
    device: str = "cpu"

    @property
    def is_regression(self) -> bool:
        return self.kind == "regression"

    @property
    def target(self) -> str:
        """The kind of target, in the words of scikit-learn's TargetEncoder."""
        return "continuous" if self.is_regression else "binary" if self.num_classes == 2 else "multiclass"


@dataclass(frozen=True)
class Contender:
    """`make` builds a model; above `max_rows` training rows (on a CPU) a random subsample is used, and marked."""

    name: str
    package: str
    make: Callable[[Setting], Model]
    note: str
    max_rows: int | None = None
    is_ours: bool = False
    labels_at_once: bool = False  # fits all labels of a multi-label set in one model
    modules: tuple[str, ...] = field(default=())  # imported before the clock starts


def validation_rows(y: Array, setting: Setting) -> tuple[Array, Array]:
    """Rows for fitting and for early stopping: 10 % or 500 rows, whichever is more, at most 20 %; stratified by
    class."""
    fraction = min(0.2, max(0.1, 500 / len(y)))
    strata = None if setting.is_regression else y
    if strata is not None and np.bincount(y).min() < 2:
        strata = None
    rows = np.arange(len(y))
    fit, stop = train_test_split(rows, test_size=fraction, random_state=setting.seed, stratify=strata)
    return fit, stop


class LightGBM:
    """Defaults with pandas categories; early stopping by the default loss."""

    def __init__(self, setting: Setting, *, refit: bool = False, **options: Any) -> None:
        self.setting, self.refit, self.options = setting, refit, options
        self.categories = Categories(setting.target)

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        import lightgbm

        fit, stop = validation_rows(y, self.setting)
        Z = self.categories.fit_transform(X, y)
        self.model = self._make(MAX_ROUNDS)
        callbacks = [lightgbm.early_stopping(PATIENCE, verbose=False)]
        self.model.fit(Z.iloc[fit], y[fit], eval_set=[(Z.iloc[stop], y[stop])], callbacks=callbacks)
        if self.refit:
            rounds = max(1, self.model.best_iteration_)
            self.model = self._make(rounds).fit(Z, y)

    def _make(self, rounds: int) -> Any:
        import lightgbm

        make = lightgbm.LGBMRegressor if self.setting.is_regression else lightgbm.LGBMClassifier
        seed, threads = self.setting.seed, self.setting.threads
        return make(n_estimators=rounds, random_state=seed, n_jobs=threads, verbose=-1, **self.options)

    def predict(self, X: pd.DataFrame) -> Array:
        return self.model.predict(self.categories.transform(X))

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(self.categories.transform(X))


class XGBoost:
    """Defaults (histograms, rate 0.3) with its native categories; early stopping by the default loss."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.categories = setting, Categories(setting.target)

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        import xgboost

        fit, stop = validation_rows(y, self.setting)
        Z = self.categories.fit_transform(X, y)
        make = xgboost.XGBRegressor if self.setting.is_regression else xgboost.XGBClassifier
        self.model = make(
            n_estimators=MAX_ROUNDS,
            early_stopping_rounds=PATIENCE,
            enable_categorical=True,
            random_state=self.setting.seed,
            n_jobs=self.setting.threads,
            device=self.setting.device,
        )
        self.model.fit(Z.iloc[fit], y[fit], eval_set=[(Z.iloc[stop], y[stop])], verbose=False)

    def predict(self, X: pd.DataFrame) -> Array:
        return self.model.predict(self.categories.transform(X))

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(self.categories.transform(X))


class CatBoost:
    """Defaults with `cat_features`; early stopping and the best iteration by the default loss."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        import catboost

        fit, stop = validation_rows(y, self.setting)
        Z = self._frame(X)
        make = catboost.CatBoostRegressor if self.setting.is_regression else catboost.CatBoostClassifier
        self.model = make(
            early_stopping_rounds=PATIENCE,
            cat_features=text_columns(Z),
            random_seed=self.setting.seed,
            thread_count=self.setting.threads,
            task_type="GPU" if self.setting.device == "cuda" else "CPU",
            allow_writing_files=False,
            verbose=False,
        )
        self.model.fit(Z.iloc[fit], y[fit], eval_set=(Z.iloc[stop], y[stop]), use_best_model=True)

    def _frame(self, X: pd.DataFrame) -> pd.DataFrame:
        Z = with_date_parts(X)
        text = {name: Z[name].astype(object).where(Z[name].notna(), MISSING) for name in text_columns(Z)}
        return Z.assign(**text)  # missing numbers it handles itself

    def predict(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.model.predict(self._frame(X))).reshape(len(X))

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(self._frame(X))


class HistGradientBoosting:
    """scikit-learn's, with native categories up to 255 levels and target statistics beyond.

    `l2_regularization=1` because the default 0 diverges on two of the multi-class tables.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.categories = Categories(setting.target, max_levels=HIST_LEVELS, seed=setting.seed)

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        make = HistGradientBoostingRegressor if self.setting.is_regression else HistGradientBoostingClassifier
        self.model = make(
            max_iter=MAX_ROUNDS,
            early_stopping=True,
            l2_regularization=1.0,
            categorical_features="from_dtype",
            random_state=self.setting.seed,
        )
        self.model.fit(self.categories.fit_transform(X, y), y)

    def predict(self, X: pd.DataFrame) -> Array:
        return self.model.predict(self.categories.transform(X))

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(self.categories.transform(X))


class OnMatrix:
    """A scikit-learn style estimator on an encoded matrix."""

    def __init__(self, setting: Setting, estimator: Any, *, standardize: str | None = None) -> None:
        self.matrix = Matrix(setting.target, standardize=standardize, seed=setting.seed)
        self.model = estimator

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        self.model.fit(self.matrix.fit_transform(X, y), y)

    def predict(self, X: pd.DataFrame) -> Array:
        return self.model.predict(self.matrix.transform(X))

    def __getattr__(self, name: str) -> Any:
        if name not in ("predict_proba", "decision_function"):
            raise AttributeError(name)
        method = getattr(self.model, name)
        return lambda X: method(self.matrix.transform(X))


def random_forest(setting: Setting) -> Model:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    make = RandomForestRegressor if setting.is_regression else RandomForestClassifier
    return OnMatrix(setting, make(random_state=setting.seed, n_jobs=setting.threads))


def support_vectors(setting: Setting) -> Model:
    """SVC or SVR, inputs standardised; so is SVR's target, as its `C` and `epsilon` assume a scale."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, SVR

    if setting.is_regression:
        estimator = TransformedTargetRegressor(SVR(cache_size=1000), transformer=StandardScaler())
    else:
        estimator = SVC(cache_size=1000)
    return OnMatrix(setting, estimator, standardize="all")


class XRFM:
    """Defaults (kernel l2_high_dim, bandwidth 10, five rounds), encoded as its README recommends.

    Numbers are standardised, one-hot columns are not; 20 % of the rows validate, as in its examples; the target of a
    regression is standardised.
    """

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.matrix = Matrix(setting.target, standardize="numbers", seed=setting.seed)

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        from xrfm import xRFM

        self.shift, self.scale = (y.mean(), y.std()) if self.setting.is_regression else (0, 1)
        targets = ((y - self.shift) / self.scale).astype(np.float32) if self.setting.is_regression else y
        strata = None if self.setting.is_regression or np.bincount(y).min() < 2 else y
        rows, stop = train_test_split(np.arange(len(y)), test_size=0.2, random_state=self.setting.seed, stratify=strata)
        Z = self.matrix.fit_transform(X, y)
        self.model = xRFM(
            device=self.setting.device, n_threads=self.setting.threads, random_state=self.setting.seed, verbose=False
        )
        self.model.fit(Z[rows], targets[rows], Z[stop], targets[stop])

    def predict(self, X: pd.DataFrame) -> Array:
        predictions = np.asarray(self.model.predict(self.matrix.transform(X))).reshape(len(X))
        return predictions * self.scale + self.shift if self.setting.is_regression else predictions

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.model.predict_proba(self.matrix.transform(X)))


class RealMLP:
    """pytabkit's RealMLP with its tuned defaults; it takes categories, but no missing numbers."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.categories = Categories(setting.target, impute=True)

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        from pytabkit import RealMLP_TD_Classifier, RealMLP_TD_Regressor

        make = RealMLP_TD_Regressor if self.setting.is_regression else RealMLP_TD_Classifier
        self.model = make(
            device=self.setting.device, random_state=self.setting.seed, n_threads=self.setting.threads, verbosity=0
        )
        self.model.fit(self.categories.fit_transform(X, y), y)

    def predict(self, X: pd.DataFrame) -> Array:
        return np.asarray(self.model.predict(self.categories.transform(X))).reshape(len(X))

    def predict_proba(self, X: pd.DataFrame) -> Array:
        return self.model.predict_proba(self.categories.transform(X))


def kernel_model(setting: Setting, **arguments: Any) -> Any:
    """`KernelRegressor` or `KernelClassifier` on the raw frames."""
    from bochner.estimators import KernelClassifier, KernelRegressor

    make = KernelRegressor if setting.is_regression else KernelClassifier
    device = {"device": setting.device}  # by default a GPU would be used if there is one, whatever the record says
    return make(random_state=setting.seed, verbose=False, solver_params=device, **arguments)


def kernel_model_of_0_1(setting: Setting) -> Model:
    """The defaults of release 0.1 on standardised inputs, encoded like those of the other matrix models."""
    return OnMatrix(setting, kernel_model(setting, preset=None, standardize=False), standardize="all")


class PerLabel:
    """One model per label, for models of a single target."""

    def __init__(self, make: Callable[[], Model]) -> None:
        self.make = make

    def fit(self, X: pd.DataFrame, y: Array) -> None:
        self.models = [self.make() for _ in range(y.shape[1])]
        for model, labels in zip(self.models, y.T, strict=True):
            model.fit(X, labels)

    def predict(self, X: pd.DataFrame) -> Array:
        return np.column_stack([model.predict(X) for model in self.models])


def build(contender: Contender, setting: Setting) -> Model:
    if setting.kind == "multilabel" and not contender.labels_at_once:
        single = Setting("binary", 2, setting.seed, setting.threads, setting.device)
        return PerLabel(lambda: contender.make(single))
    return contender.make(setting)


def _ours(preset: str) -> Contender:
    return Contender(
        "bochner" if preset == "default" else f"bochner-{preset}",
        "bochner",
        lambda setting: kernel_model(setting, preset=preset),
        f'preset="{preset}", frames as they are',
        is_ours=True,
        labels_at_once=True,
        modules=("bochner.estimators",),
    )


STOPPED = f"up to {MAX_ROUNDS:,} rounds, early stopping after {PATIENCE} on validation rows"
CONTENDERS = {
    contender.name: contender
    for contender in [
        _ours("default"),
        _ours("fast"),
        _ours("best"),
        Contender("lightgbm", "lightgbm", LightGBM, f"native categories; {STOPPED}", modules=("lightgbm",)),
        Contender("catboost", "catboost", CatBoost, f"native categories; {STOPPED}", modules=("catboost",)),
        Contender("xgboost", "xgboost", XGBoost, f"native categories; {STOPPED}", modules=("xgboost",)),
        Contender(
            "hist-gradient-boosting",
            "scikit-learn",
            HistGradientBoosting,
            "l2_regularization=1, as 0 diverges on two multi-class tables; up to 1,000 rounds, early stopping after 10 "
            "on 10 % of the rows",
            modules=("sklearn.ensemble",),
        ),
        Contender("random-forest", "scikit-learn", random_forest, "100 trees", modules=("sklearn.ensemble",)),
        Contender(
            "svm",
            "scikit-learn",
            support_vectors,
            "SVC or SVR, standardised",
            max_rows=20_000,
            modules=("sklearn.svm", "sklearn.compose"),
        ),
        Contender("xrfm", "xrfm", XRFM, "standardised numbers", max_rows=10_000, modules=("xrfm",)),
        Contender(
            "realmlp", "pytabkit", RealMLP, "RealMLP-TD, native categories", max_rows=20_000, modules=("pytabkit",)
        ),
        Contender(
            "bochner-0.1",
            "bochner",
            kernel_model_of_0_1,
            "the defaults of release 0.1, standardised",
            is_ours=True,
            modules=("bochner.estimators",),
        ),
        Contender(
            "lightgbm-refit",
            "lightgbm",
            lambda setting: LightGBM(setting, refit=True),
            "as lightgbm, then refitted on all training rows with that many rounds",
            modules=("lightgbm",),
        ),
    ]
}
