"""The records of cells: a directory of JSON files while cells run, one CSV file to keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

LEFT_OUT = ["traceback", "machine.load", "machine.time"]  # of no use on the page
TEXTS = ["machine.python", "machine.commit"]  # may look like numbers

Record = dict[str, Any]


def read_records(results: Path) -> list[Record]:
    """All records of a results directory or of a file written by `write_csv`."""
    if results.suffix != ".csv":
        return [json.loads(path.read_text()) for path in sorted(results.glob("*/*.json"))]
    texts = dict.fromkeys([c for c in pd.read_csv(results, nrows=0) if "version" in c or c in TEXTS], "string")
    frame = pd.read_csv(results, dtype=texts, dtype_backend="numpy_nullable")  # keeps counts with gaps as integers
    return [
        _nested({key: value for key, value in row.items() if not pd.isna(value)}) for row in frame.to_dict("records")
    ]


def write_csv(records: list[Record], path: Path) -> None:
    """One row per cell, with nested values in columns such as `scores.accuracy`."""
    if path.suffix != ".csv":
        raise SystemExit(f"--store: {path} must end in .csv")
    frame = pd.json_normalize(records).drop(columns=LEFT_OUT, errors="ignore").convert_dtypes()
    frame = frame.sort_values(["set", "contender", "split"])
    frame.to_csv(path, index=False, float_format="%.7g")


def _nested(flat: Record) -> Record:
    record: Record = {}
    for key, value in flat.items():
        *parents, name = key.split(".")
        target = record
        for parent in parents:
            target = target.setdefault(parent, {})
        target[name] = value
    return record
