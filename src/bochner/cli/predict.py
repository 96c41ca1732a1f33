"""`bochner predict`: what a model says of new rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bochner.cli.models import load_model
from bochner.cli.outputs import Table, write_tables
from bochner.cli.rows import Columns, open_for
from bochner.cli.scoring import ROWS_AT_ONCE
from bochner.data.batches import in_order
from bochner.data.blocks import Source, num_rows


def predict(
    model: Path,
    data: Path,
    *,
    output: Path | None = None,
    probabilities: bool = False,
    columns: Columns = None,
    device: str = "auto",
) -> None:
    """Predict every row of a file, a few thousand at a time.

    Examples:

        bochner predict out/iris new.csv
        bochner predict out/iris new.csv --output predictions.csv
        bochner predict out/iris new.csv --output probabilities.npy --probabilities

    The inputs are found in tables by the names of the columns that the model was trained on; other columns, the target
    among them, may be there and are not looked at.

    Args:
        model: The folder that `bochner train` made, or a model file in it.
        data: Rows, in any format that `bochner train` reads.
        output: A .csv, .npy or .parquet file, written whole or not at all. Default: CSV on the standard output.
        probabilities: Give p(class | x) too, a column p(CLASS) for each class; an .npy then holds those alone.
        columns: Inputs, with commas between them, where they are not called as in training.
        device: "auto" is the GPU when there is one.
    """
    loaded = load_model(model, device=device)
    if probabilities and not hasattr(loaded, "classes_"):
        raise ValueError("probabilities must not be asked of a regressor, which has no classes.")
    source = open_for(loaded, data, columns=columns)
    is_array = output is not None and output.suffix.lower() == ".npy"
    tables = predicted(loaded, source, probabilities=probabilities, prediction=not (is_array and probabilities))
    write_tables(tables, output, num_rows=num_rows(source))
    if output is not None:
        print(f"{num_rows(source):,} predictions: {output}")


def predicted(model: Any, source: Source, *, probabilities: bool, prediction: bool) -> Iterator[Table]:
    """Columns of the predictions, one block of rows after the other."""
    for block in in_order(source, ROWS_AT_ONCE):
        X = block.X.double()  # the estimator answers in the type it is asked in
        table = _predictions(model, np.asarray(model.predict(X))) if prediction else {}
        if probabilities:
            p = np.asarray(model.predict_proba(X), dtype=_type(model))
            table |= {f"p({label})": p[:, place] for place, label in enumerate(model.classes_.tolist())}
        yield table


def _predictions(model: Any, found: np.ndarray[Any, Any]) -> Table:
    if hasattr(model, "classes_"):
        return {"prediction": found}
    found = found.astype(_type(model))
    if found.ndim == 1:
        return {"prediction": found}
    return {f"prediction {place}": found[:, place] for place in range(found.shape[1])}


def _type(model: Any) -> Any:
    return np.float64 if model.precision == "float64" else np.float32
