"""The run itself: fit, score, save."""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import is_classifier

from bochner.cli.card import card_page, make_card
from bochner.cli.folder import Options, RunFolder
from bochner.cli.parts import Parts
from bochner.cli.scoring import Metrics, score
from bochner.data import classes_of, column_names_of
from bochner.data.blocks import num_rows
from bochner.search.fit import Task
from bochner.storage import save


class Effort(NamedTuple):
    """Seconds of a fit, and the rows it went through: once, or once an epoch that was not done before."""

    seconds: float
    rows: int


def choose(model: Any, parts: Parts) -> str:
    """The solver that a fit will use, or an error when it cannot be the one that is asked for."""
    num_classes = len(classes_of(parts.learned)) if is_classifier(model) else None
    task = Task(parts.learned, parts.judged, parts.learned, num_classes, torch.empty(0))
    solver: str = model._chosen_solver(task)
    return solver


def fit(model: Any, parts: Parts, folder: RunFolder) -> Effort:
    done, start = folder.epochs_done(), time.perf_counter()
    model.fit(parts.learned, heldout=parts.judged)
    passes = max(1, len(model.history_) - done)
    names = column_names_of(parts.learned)
    if names is not None:  # by which `bochner predict` finds the inputs in other tables
        model.feature_names_in_ = np.array(names, dtype=object)
    return Effort(time.perf_counter() - start, passes * num_rows(parts.learned) // model.num_blocks)


def finish(model: Any, parts: Parts, folder: RunFolder, options: Options) -> Metrics:
    """Score the judged rows and write everything; the model comes last, so that a folder with one is complete."""
    metrics = score(model, parts.judged).metrics()
    if model.history_:
        folder.history.write_text("".join(json.dumps(record) + "\n" for record in model.history_))
    summary = {"protocol": parts.protocol, "num_rows": num_rows(parts.judged), **metrics}
    folder.metrics.write_text(json.dumps(summary, indent=1) + "\n")
    card = make_card(model, parts, options, metrics)
    folder.card.write_text(json.dumps(card, indent=1) + "\n")
    folder.page.write_text(card_page(card))
    save(model, folder.model)
    folder.finish()
    return metrics
