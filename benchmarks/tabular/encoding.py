"""Encoding of frames with text, dates and missing values for the peers.

Every peer sees the same columns: dates become numbers (`with_date_parts`), text stays categorical. Columns that a peer
cannot read are encoded from the training rows alone: `Categories` for those with native categories, `Matrix` for the
others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype, is_numeric_dtype
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

Array = NDArray[Any]

MAX_ONE_HOT_LEVELS = 20  # above it, out-of-fold target statistics instead of one-hot columns
MISSING = "missing"


def with_date_parts(X: pd.DataFrame) -> pd.DataFrame:
    """The frame with each timestamp as days since 1970, year, month, day, weekday, day of the year and hour.

    Columns are renamed to c0, c1, ...: LightGBM does not accept some characters in names.
    """
    columns: dict[str, Any] = {}
    for name in X.columns:
        column = X[name]
        if not is_datetime64_any_dtype(column):
            columns[str(name)] = column
            continue
        days = (column - pd.Timestamp("1970-01-01", tz=column.dt.tz)) / pd.Timedelta(days=1)
        columns[f"{name} days"] = days
        for part in ("year", "month", "day", "day_of_week", "day_of_year", "hour"):
            columns[f"{name} {part}"] = getattr(column.dt, part).astype(np.float64)
    frame = pd.DataFrame(columns, index=X.index)
    frame.columns = [f"c{i}" for i in range(frame.shape[1])]
    return frame


def text_columns(X: pd.DataFrame) -> list[str]:
    return [name for name in X.columns if not is_numeric_dtype(X[name])]


class Categories:
    """Text columns as pandas categories of the levels seen in `fit`; other levels become missing.

    Columns with more than `max_levels` levels become target statistics; missing numbers stay missing unless `impute`.
    """

    def __init__(self, target: str, *, max_levels: int | None = None, impute: bool = False, seed: int = 0) -> None:
        self.target, self.max_levels, self.impute, self.seed = target, max_levels, impute, seed

    def fit_transform(self, X: pd.DataFrame, y: Array) -> pd.DataFrame:
        X = with_date_parts(X)
        text = text_columns(X)
        limit = self.max_levels or len(X)
        self.levels = {name: np.unique(X[name].dropna().astype(str)) for name in text}
        self.long = [name for name in text if len(self.levels[name]) > limit]
        numbers = [name for name in X.columns if name not in text]
        self.gaps = [name for name in numbers if self.impute and X[name].isna().any()]
        self.medians = X[numbers].median().fillna(0.0)
        statistics = None
        if self.long:
            self.encoder = TargetEncoder(target_type=self.target, random_state=self.seed)
            statistics = self.encoder.fit_transform(_as_objects(X[self.long]), y)  # out-of-fold
        return self._assemble(X, statistics)

    def transform(self, X: pd.DataFrame) -> pd.DataFrame:
        X = with_date_parts(X)
        return self._assemble(X, self.encoder.transform(_as_objects(X[self.long])) if self.long else None)

    def _assemble(self, X: pd.DataFrame, statistics: Array | None) -> pd.DataFrame:
        columns: dict[str, Any] = {}
        for name in X.columns:
            if name in self.long:
                continue
            if name in self.levels:
                known = X[name].isin(self.levels[name])
                values = X[name].astype(object).where(known, None)
                columns[name] = pd.Categorical(values, categories=self.levels[name].astype(object))
            elif self.impute:
                columns[name] = X[name].fillna(self.medians[name]).to_numpy(np.float64)
            else:
                columns[name] = X[name].to_numpy(np.float64)
        columns |= {f"{name} missing": X[name].isna().to_numpy(np.float64) for name in self.gaps}
        if statistics is not None:
            columns |= {f"statistic {j}": statistics[:, j] for j in range(statistics.shape[1])}
        return pd.DataFrame(columns)


class Matrix:
    """Numbers only, float32: one-hot up to 20 levels, target statistics beyond, medians and an indicator for missing.

    `standardize="numbers"` leaves one-hot columns at 0 and 1, "all" scales them too.
    """

    def __init__(self, target: str, *, standardize: str | None = None, seed: int = 0) -> None:
        self.target, self.standardize, self.seed = target, standardize, seed

    def fit_transform(self, X: pd.DataFrame, y: Array) -> Array:
        X = with_date_parts(X)
        text = text_columns(X)
        levels = X[text].nunique()
        short = [name for name in text if levels[name] <= MAX_ONE_HOT_LEVELS]
        long = [name for name in text if levels[name] > MAX_ONE_HOT_LEVELS]
        numbers = [name for name in X.columns if name not in text]
        scaling = [StandardScaler()] if self.standardize else []
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        statistics = TargetEncoder(target_type=self.target, random_state=self.seed)
        self.columns = ColumnTransformer(
            [
                ("numbers", make_pipeline(imputer, *scaling), numbers),
                ("short", make_pipeline(one_hot, *(scaling if self.standardize == "all" else [])), short),
                ("long", make_pipeline(statistics, *scaling), long),
            ]
        )
        return self.columns.fit_transform(_as_objects(X), y).astype(np.float32)

    def transform(self, X: pd.DataFrame) -> Array:
        return self.columns.transform(_as_objects(with_date_parts(X))).astype(np.float32)


def _as_objects(X: pd.DataFrame) -> pd.DataFrame:
    """Text columns as plain strings, with a separate level for missing values."""
    text = text_columns(X)
    return X.assign(**{name: X[name].astype(object).where(X[name].notna(), MISSING) for name in text})
