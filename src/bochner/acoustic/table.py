"""The papers' comparison: the best network against the best kernel model, metric by metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from bochner.acoustic.results import Results, Row

HEADINGS = {
    "network": "best network",
    "kernel": "best kernel",
    "network sequence": "network MMI",
    "sequence": "kernel MMI",
    "combination": "both",
    "gmm": "GMM",
}
HELDOUT = {
    "CE": "ce",
    "perplexity": "perplexity",
    "  silence as one state": "perplexity_silence_collapsed",
    "ENT": "ent",
    "ERLL": "erll",
}
Value = Callable[[Row], float | None]
Table = list[list[str]]  # lines of cells, the heading first


def comparison(results: Results) -> Table:
    """Table 7 of May et al. 2019 for one task; figures are means over the seeds, with their spread.

    Frame metrics are of the heldout part. Models are chosen by dev, and only the chosen are decoded on test.
    """
    columns = {kind: rows for kind in HEADINGS if (rows := results.chosen(kind))}
    lines = [["", *(HEADINGS[kind] for kind in columns)], ["", *(rows[0].model for rows in columns.values())]]
    for name, value, digits in _lines(results):
        lines.append([name, *(shown(rows, value, digits) for rows in columns.values())])
    return [line for line in lines if any(cell.strip("-") for cell in line[1:])]


def across(runs: Sequence[Results]) -> Table:
    """A line for each task, its error on test by the best of each kind: Table 7 of May et al. 2019."""
    kinds = [kind for kind in HEADINGS if any(results.chosen(kind) for results in runs)]
    head = ["", "error", "seeds", "states", *(HEADINGS[kind] for kind in kinds)]
    return [head, *(_task(results, kinds) for results in runs)]


def _task(results: Results, kinds: Sequence[str]) -> list[str]:
    sizes = [str(len(results.recipe["seeds"])), f"{results.num_states:,}"]
    chosen = [results.chosen(kind) for kind in kinds]
    errors = [shown(rows, _percent("test", "ter"), 2) if rows else "-" for rows in chosen]
    return [str(results.recipe["name"]), _metric(results), *sizes, *errors]


def all_models(results: Results) -> Table:
    """A line for each model, as in Tables 2 to 6: what drives training, and what it is worth."""
    metric = _metric(results)
    names = list(dict.fromkeys(row.model for row in results.rows))
    lines = [["", "CE", "ENT", "ERLL", "ERR %", f"{metric} dev %", f"{metric} test %", "seconds"]]
    for name in names:
        rows = [row for row in results.rows if row.model == name]
        values = [_heldout("ce"), _heldout("ent"), _heldout("erll")]
        cells = [shown(rows, value, 3) for value in values] + [shown(rows, _percent("heldout", "err"), 1)]
        cells += [shown(rows, _percent(part, "ter"), 2) for part in ("dev", "test")]
        lines.append([name, *cells, shown(rows, lambda row: row.seconds, 0)])
    return lines


def protocol(results: Results) -> str:
    """How the figures came about, in a few lines."""
    seeds = results.recipe["seeds"]
    spread = f"Means over seeds {', '.join(map(str, seeds))}, ± their standard deviation. " if len(seeds) > 1 else ""
    speech = "Synthetic speech: this says nothing about recordings of people. " if results.synthetic else ""
    return (
        f"{results.corpus}, {results.num_states:,} states, error by {results.protocol}. {speech}{spread}Bandwidth and "
        f"rate were chosen on heldout, models and decoding weights on dev; test was decoded by the chosen models only."
    )


def shown(rows: Sequence[Row], value: Value, digits: int) -> str:
    """The mean over rows, with the standard deviation where there are several; a dash where a row has none."""
    values = [value(row) for row in rows]
    known = [one for one in values if one is not None]
    if len(known) < len(values):
        return "-"
    spread = f" ± {stdev(known):.{digits}f}" if len(known) > 1 else ""
    return f"{fmean(known):.{digits}f}{spread}"


def as_text(table: Table) -> str:
    """Names to the left, figures to the right.

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
    metric = _metric(results)
    lines: list[tuple[str, Value, int]] = [(name, _heldout(key), 3) for name, key in HELDOUT.items()]
    lines += [("ERR %", _percent("heldout", "err"), 1)]
    lines += [(f"{metric} dev %", _percent("dev", "ter"), 2), (f"{metric} test %", _percent("test", "ter"), 2)]
    lines += [("  95 % from", _percent("test", "low"), 2), ("  to", _percent("test", "high"), 2)]
    return [*lines, ("seconds of training", lambda row: row.seconds, 0)]


def _metric(results: Results) -> str:
    """PER, WER or CER, by the protocol's name.

    >>> from types import SimpleNamespace
    >>> _metric(SimpleNamespace(protocol="per39_sil_scored"))
    'PER'
    """
    return results.protocol[:3].upper()


def _heldout(name: str) -> Value:
    return lambda row: row.heldout.get(name)


def _percent(part: str, name: str) -> Value:
    def value(row: Row) -> float | None:
        found = (getattr(row, part) or {}).get(name)
        return None if found is None else 100 * found

    return value
