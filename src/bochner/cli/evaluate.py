"""`bochner evaluate`: how good a model is on rows that it has not seen."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Any

from bochner.cli.models import load_model
from bochner.cli.rows import Columns, open_for, text_classes, with_targets
from bochner.cli.scoring import ClassTally, Tally, score

MOST_CONFUSIONS = 5


def evaluate(
    model: Path,
    data: Path,
    *,
    target: str | None = None,
    json: Path | None = None,
    columns: Columns = None,
    weight: str | None = None,
    device: str = "auto",
) -> None:
    """Score a model on a file of rows with known targets.

    Examples:

        bochner evaluate out/iris test.csv --target species
        bochner evaluate out/iris test.csv --target species --json test_metrics.json

    Of classes: accuracy, error, balanced accuracy (the mean over classes), ce (the mean of -log p(class | x)),
    perplexity (its exponential), and the classes that are confused most. Of numbers: R2, root mean squared error and
    mean absolute error. Nothing is tuned here; give rows that neither training nor any choice has used.

    Args:
        model: The folder that `bochner train` made, or a model file in it.
        data: Rows, in any format that `bochner train` reads.
        target: The true values: a column of a table, an array in an .npz (default y), or the path of an .npy file.
        json: A file for the metrics, besides the table.
        columns: Inputs, with commas between them, where they are not called as in training.
        weight: A column of row weights.
        device: "auto" is the GPU when there is one.
    """
    loaded = load_model(model, device=device)
    labels = text_classes(loaded)
    source = open_for(loaded, data, columns=columns, target=target, weight=weight, labels=labels)
    tally = score(loaded, with_targets(data, source))
    protocol = f"all {tally.num_rows:,} rows of {data}" + ("" if weight is None else f", weighted by {weight}")
    show(tally, protocol)
    if json is not None:
        write(json, {"model": str(model), "protocol": protocol, "num_rows": tally.num_rows, **tally.metrics()})


def show(tally: Tally, protocol: str) -> None:
    print(f"{protocol}; nothing was tuned on them here\n")
    for name, value in tally.metrics().items():
        print(f"{name:<18} {value:>10.4f}")
    confused = tally.confusions(MOST_CONFUSIONS) if isinstance(tally, ClassTally) else []
    if confused:
        print("\nmost confused, in rows")
    for true, found, rows in confused:
        print(f"{true!s} taken for {found!s}: {rows:,}")


def write(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json_text.dumps(content, indent=1) + "\n")
