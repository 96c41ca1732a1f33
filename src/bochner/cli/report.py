"""`bochner report`: an HTML page about a model, with scores on a file of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import Generator

from bochner.cli.provenance import TrainingRecord
from bochner.cli.tables import Columns, TextOptions, open_for_model, require_targets, text_classes
from bochner.cli.train_directory import load_model
from bochner.data import Rows, TableRows, labels_of, sample_rows
from bochner.data.blocks import num_rows
from bochner.estimators.report import write_report
from bochner.remote import is_url, local_path

MAX_ROWS = 50_000  # that are scored: enough for intervals of half a per cent, in memory at once


def report(
    model: str,
    data: str,
    *,
    output: Path | None = None,
    target: str | None = None,
    columns: Columns = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: Literal[".", ","] | None = None,
    device: str = "auto",
) -> None:
    """Write an HTML page about a model, for readers who did not train it.

    Examples:

        bochner report out/iris_csv test.csv
        bochner report out/iris_csv test.csv --output iris.html

    One file: scores of the model with intervals, compared with a constant; cautions; the training data; calibration and
    confusion or errors; the most important columns; and the trials of the search. Needs `pip install 'bochner[plot]'`.

    Args:
        model: The output directory of `bochner train`, or a model file.
        data: Rows with known targets that were not trained on, in any format that `bochner train` reads.
        output: The page. Default: report.html in the directory of the model.
        target: The true values: a column of a table by name or position, an array in an .npz (default y), or the path
            of an .npy file. Default: as in training.
        columns: Names of the inputs, separated by commas, if they differ from those of training.
        sep: Separator of a CSV file, a character or "tab". Default: detected.
        encoding: Encoding of a CSV file, such as "cp1252". Default: detected.
        decimal: Decimal sign of a CSV file. Default: detected.
        device: Where predictions are computed; "auto" is the GPU if there is one.
    """
    if is_url(model) and output is None:
        raise ValueError(f"output must be given for a model at a URL, {model}.")
    path = local_path(model)
    estimator, record = load_model(path, device=device), TrainingRecord.beside(path)
    target = target or (None if record is None else record.target)
    labels, text = text_classes(estimator), TextOptions(sep, encoding, decimal)
    rows = require_targets(
        data, open_for_model(estimator, data, columns=columns, target=target, labels=labels, text=text)
    )
    X, y = inputs_and_targets(rows)
    details, beware = {"test file": str(data), "test rows": f"{num_rows(rows):,}"}, []
    if len(y) < num_rows(rows):
        details["test rows that were scored"] = f"{len(y):,}, drawn at random"
    if record is not None:
        details |= {"training file": record.training_file, "SHA-256 of the training file": record.training}
        if not (relation := record.relation(data)).is_new:
            beware.append(f"{relation.text}.")
    page = output or (path if path.is_dir() else path.parent) / "report.html"
    write_report(estimator, page, X, y, target=target, details=details, beware=beware)
    print(f"report: {page}")


def inputs_and_targets(rows: Rows) -> tuple[Any, np.ndarray[Any, Any]]:
    """At most 50,000 rows, drawn at random from more, as a frame or tensor and an array."""
    if isinstance(rows, TableRows):
        if len(rows) > MAX_ROWS:
            rows = rows.take(np.sort(np.random.default_rng(0).choice(len(rows), MAX_ROWS, replace=False)))
        assert rows.y is not None
        return rows.X, rows.y if rows.labels is None else rows.y.astype(str)
    block, labels = sample_rows(rows, MAX_ROWS, generator=Generator().manual_seed(0)), labels_of(rows)
    y = block.y.cpu().numpy()
    return block.X.double(), y if labels is None else np.array(labels)[y]
