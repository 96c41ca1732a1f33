"""The results of an experiment, one row per model and seed, and tables of them as in the papers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from bochner.stages import write_json

FILE = "results.json"
SEQUENCE_KINDS = {"kernel": "sequence", "network": "network sequence"}  # trained by the sequence objective
ENSEMBLES = {"kernel": "kernel ensemble", "network": "network ensemble"}  # all models of the kind, averaged
GMM_COMBINATION = "with gmm"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model of one seed.

    `heldout` has ce, perplexity, perplexity_silence_collapsed, ent, erll and err; it is empty for a GMM or a
    combination of a kernel model and a network. `dev` has ter, acoustic_weight and word_penalty. `test`, for chosen
    models only, has ter with its interval low to high, and tokens. Rates are fractions. `seconds` is the training time
    and `cpu_seconds` the CPU time, where known; after an interruption, those since the last start. `directory` is
    relative to that of results.json.
    """

    model: str
    kind: str
    settings: Mapping[str, Any]
    seed: int
    heldout: Mapping[str, float]
    dev: Mapping[str, float]
    test: Mapping[str, float] | None
    seconds: float
    directory: str
    cpu_seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rows of an experiment, with its recipe and the scoring protocol."""

    recipe: Mapping[str, Any]
    protocol: str
    synthetic: bool
    corpus: str
    num_states: int
    rows: Sequence[Row]

    def of_kind(self, kind: str) -> list[Row]:
        return [row for row in self.rows if row.kind == kind]

    def chosen(self, kind: str) -> list[Row]:
        """The rows, one per seed, of the model of that kind with the lowest mean error on dev, the first of a tie.

        Empty if there is no model of that kind.
        """
        rows = self.of_kind(kind)
        if not rows:
            return []
        names = list(dict.fromkeys(row.model for row in rows))
        best = min(names, key=lambda name: fmean(row.dev["ter"] for row in rows if row.model == name))
        return [row for row in rows if row.model == best]

    def write(self, directory: Path) -> None:
        write_json(directory / FILE, asdict(self))


def read_results(directory: str | os.PathLike[str]) -> Results:
    """The results in the directory of an experiment, or in a results.json."""
    path = Path(directory)
    text = (path / FILE if path.is_dir() else path).read_bytes()
    try:
        stored = json.loads(text)
        rows = [Row(**{"directory": row.pop("folder", None), **row}) for row in stored["rows"]]  # "folder" in 0.1
        return Results(**{**stored, "rows": rows})
    except (TypeError, KeyError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a results file of `bochner asr run`: {error!r}.") from error


TRAINING = {
    "modern": "Protocol modern: kernel models with preconditioning and averaging; networks with batch normalisation, "
    "dropout and one cycle of AdamW, except where the recipe differs. ",
    "papers": "Protocol papers: plain SGD, halved after less than 1 % improvement, stopped after 10 halvings, no "
    "averaging; pre-trained tanh networks, except where the recipe differs. ",
}
HEADINGS = {
    "network": "best network",
    "kernel": "best kernel",
    "network sequence": "network MMI",
    "sequence": "kernel MMI",
    **{kind: kind for kind in reversed(ENSEMBLES.values())},
    "combination": "both",
    "gmm": "GMM",
    GMM_COMBINATION: "with GMM",
}
HELDOUT = {
    "CE": "ce",
    "perplexity": "perplexity",
    "  silence as one state": "perplexity_silence_collapsed",
    "ENT": "ent",
    "ERLL": "erll",
}
Value = Callable[[Row], float | None]
Table = list[list[str]]  # lines of cells, the header first


def comparison(results: Results) -> Table:
    """The best model of each kind, as in Table 7 of May et al. 2019; mean and standard deviation over the seeds.

    Frame scores are those of heldout. Models are chosen on dev, and only the chosen ones are decoded on test.
    """
    columns = {kind: rows for kind in HEADINGS if (rows := results.chosen(kind))}
    lines = [["", *(HEADINGS[kind] for kind in columns)], ["", *(rows[0].model for rows in columns.values())]]
    for name, value, digits in _lines(results):
        lines.append([name, *(mean_text(rows, value, digits) for rows in columns.values())])
    return [line for line in lines if any(cell.strip("-") for cell in line[1:])]


def across(runs: Sequence[Results]) -> Table:
    """One line per experiment: the test error of the best model of each kind, as in Table 7 of May et al. 2019."""
    kinds = [kind for kind in HEADINGS if any(results.chosen(kind) for results in runs)]
    lines = [["", "protocol", "error", "seeds", "states", *(HEADINGS[kind] for kind in kinds)]]
    for results in runs:
        sizes = [str(len(results.recipe["seeds"])), f"{results.num_states:,}"]
        chosen = [results.chosen(kind) for kind in kinds]
        errors = [mean_text(rows, _percent("test", "ter"), 2) if rows else "-" for rows in chosen]
        protocol = str(results.recipe.get("protocol", "-"))  # absent in results of 0.1
        lines.append([str(results.recipe["name"]), protocol, _error_name(results), *sizes, *errors])
    return lines


def all_models(results: Results) -> Table:
    """One line per model, as in Tables 2 to 6 of May et al. 2019."""
    error = _error_name(results)
    names = list(dict.fromkeys(row.model for row in results.rows))
    lines = [["", "CE", "ENT", "ERLL", "ERR %", f"{error} dev %", f"{error} test %", "seconds"]]
    for name in names:
        rows = [row for row in results.rows if row.model == name]
        values = [_heldout("ce"), _heldout("ent"), _heldout("erll")]
        cells = [mean_text(rows, value, 3) for value in values] + [mean_text(rows, _percent("heldout", "err"), 1)]
        cells += [mean_text(rows, _percent(part, "ter"), 2) for part in ("dev", "test")]
        lines.append([name, *cells, mean_text(rows, lambda row: row.seconds, 0)])
    return lines


def protocol(results: Results) -> str:
    """The protocol of the experiment in a few sentences."""
    seeds = results.recipe["seeds"]
    spread = f"Means over seeds {', '.join(map(str, seeds))}, ± their standard deviation. " if len(seeds) > 1 else ""
    speech = (
        "The speech is synthetic: these results do not apply to recordings of people. " if results.synthetic else ""
    )
    training = TRAINING.get(str(results.recipe.get("protocol")), "")  # absent in results of 0.1
    return (
        f"{results.corpus}, {results.num_states:,} states, error by {results.protocol}. {speech}{training}{spread}"
        "Bandwidths and unset learning rates were chosen on heldout, models and decoding weights on dev; only the "
        "chosen models were decoded on test."
    )


def mean_text(rows: Sequence[Row], value: Value, digits: int) -> str:
    """The mean over rows, with the standard deviation if there are several; a dash if a row has no value."""
    values = [number for number in map(value, rows) if number is not None]
    if len(values) < len(rows):
        return "-"
    spread = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{fmean(values):.{digits}f}{spread}"


def as_text(table: Table) -> str:
    """The table with aligned columns.

    >>> print(as_text([["", "CE"], ["network", "1.25"]]))
               CE
    network  1.25
    """
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    padded = ([cell.rjust(width) for cell, width in zip(line, widths, strict=True)] for line in table)
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *cells[1:]]) for line, cells in zip(table, padded, strict=True)
    )


def _lines(results: Results) -> list[tuple[str, Value, int]]:
    error = _error_name(results)
    lines: list[tuple[str, Value, int]] = [(name, _heldout(key), 3) for name, key in HELDOUT.items()]
    lines += [("ERR %", _percent("heldout", "err"), 1)]
    lines += [(f"{error} dev %", _percent("dev", "ter"), 2), (f"{error} test %", _percent("test", "ter"), 2)]
    lines += [("  95 % from", _percent("test", "low"), 2), ("  to", _percent("test", "high"), 2)]
    return [*lines, ("seconds of training", lambda row: row.seconds, 0)]


def _error_name(results: Results) -> str:
    """PER, WER or CER, from the name of the protocol.

    >>> from types import SimpleNamespace
    >>> _error_name(SimpleNamespace(protocol="per39_sil_scored"))
    'PER'
    """
    return results.protocol[:3].upper()


def _heldout(name: str) -> Value:
    return lambda row: row.heldout.get(name)


def _percent(part: str, name: str) -> Value:
    def value(row: Row) -> float | None:
        rate = (getattr(row, part) or {}).get(name)
        return None if rate is None else 100 * rate

    return value
