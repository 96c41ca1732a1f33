"""Which files a model was trained and validated on, by the SHA-256 in its card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from bochner.cli.train_directory import CARD_FILE, checksum
from bochner.remote import path_of


class TrainingRecord(NamedTuple):
    """The card of a model: the names of its columns, and the SHA-256 of its files."""

    target: str | None
    training_file: str
    training: str
    validation: str | None
    training_rows: int
    validation_rows: int
    validation_use: str

    @classmethod
    def beside(cls, model: Path) -> TrainingRecord | None:
        """The record of a model file or of the output directory of `bochner train`; None without a readable card."""
        path = (model if model.is_dir() else model.parent) / CARD_FILE
        try:
            card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            data, settings = card["data"], card["settings"]
            sums, other = data["sha256"], settings.get("validation_data")
            return cls(
                settings.get("target"),
                settings["data"],
                sums[settings["data"]],
                None if other is None else sums[other],
                data["training_rows"],
                data["validation_rows"],
                data["validation_use"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def relation(self, data: str) -> Relation:
        """The relation of a file to the training data, by its SHA-256."""
        digest = checksum(path_of(data))
        if digest == self.training:
            text = f"{data} is the file of training: {self.training_rows:,} of its rows were trained on"
            return Relation(f"{text}, and these scores are better than those of new rows", is_new=False)
        if digest == self.validation:
            return Relation(f"{data} is the validation file of training; {self.validation_use}", is_new=False)
        return Relation("not a file of training, by its SHA-256", is_new=True)


class Relation(NamedTuple):
    """The relation of a file to the training data, and whether its rows are new."""

    text: str
    is_new: bool
