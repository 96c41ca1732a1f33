"""What a run found: a row for each model and seed, in results.json."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from bochner.storage import write_atomically

FILE = "results.json"
SEQUENCED = {"kernel": "sequence", "network": "network sequence"}  # the kind of a row that was trained by utterances


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of one seed.

    `heldout` holds ce, perplexity, perplexity_silence_collapsed, ent, erll and err, and is empty where there are none
    (a GMM, a combination); `dev` ter, acoustic_weight and word_penalty; `test`, of chosen models only, ter with its
    interval low to high, and tokens. Rates are shares, not percent. `seconds` are those of training; where it was
    stopped, of its last part. `folder` is relative to that of results.json.
    """

    model: str
    kind: str
    settings: Mapping[str, Any]
    seed: int
    heldout: Mapping[str, float]
    dev: Mapping[str, float]
    test: Mapping[str, float] | None
    seconds: float
    folder: str


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rows of a run, with the recipe they are of and the protocol that errors were counted by."""

    recipe: Mapping[str, Any]
    protocol: str
    synthetic: bool
    corpus: str
    num_states: int
    rows: Sequence[Row]

    def of_kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.kind == kind]

    def chosen(self, kind: str) -> list[Row]:
        """The rows, one a seed, of the model of that kind with the least mean error on dev; none where there is none.

        Of equals the first.
        """
        found = self.of_kind(kind)
        if not found:
            return []
        names = list(dict.fromkeys(row.model for row in found))
        best = min(names, key=lambda name: fmean(row.dev["ter"] for row in found if row.model == name))
        return [row for row in found if row.model == best]

    def write(self, folder: Path) -> Path:
        path = folder / FILE
        write_atomically(path, json.dumps(asdict(self), indent=1, ensure_ascii=False).encode())
        return path


def read_results(folder: str | os.PathLike[str]) -> Results:
    """Of the folder of a run, or of one's results.json."""
    path = Path(folder)
    text = (path / FILE if path.is_dir() else path).read_bytes()
    try:
        stored = json.loads(text)
        return Results(**{**stored, "rows": [Row(**row) for row in stored["rows"]]})
    except (TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not what `bochner asr run` writes: {error!r}.") from error
