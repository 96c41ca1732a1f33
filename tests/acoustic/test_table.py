"""The comparison: who is chosen, what is averaged, and what stands in the table."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bochner.acoustic.results import Results, Row, read_results
from bochner.acoustic.table import all_models, comparison, protocol


def row(model: str, kind: str, dev: float, *, seed: int = 0, test: float | None = None, **changes: Any) -> Row:
    scored = None if test is None else {"ter": test, "low": test - 0.01, "high": test + 0.01, "tokens": 100}
    heldout = {"ce": 1.0, "perplexity": 2.7, "perplexity_silence_collapsed": 2.5, "ent": 0.5, "erll": 1.5, "err": 0.3}
    made = Row(
        model=model, kind=kind, settings={}, seed=seed, heldout=heldout, dev={"ter": dev}, test=scored, seconds=9.0,
        folder=f"models/{model}",
    )  # fmt: skip
    return replace(made, **changes)


@pytest.fixture
def results() -> Results:
    rows = [
        row("gaussian", "kernel", 0.20, seed=0), row("gaussian", "kernel", 0.30, seed=1),
        row("laplacian", "kernel", 0.24, seed=0, test=0.26), row("laplacian", "kernel", 0.25, seed=1, test=0.28),
        row("tanh", "network", 0.25, seed=0, test=0.27), row("tanh", "network", 0.25, seed=1, test=0.27),
        row("sat", "gmm", 0.35, test=0.36, heldout={}),
    ]  # fmt: skip
    recipe = {"name": "toy", "seeds": [0, 1]}
    return Results(recipe=recipe, protocol="per_sil_scored", synthetic=True, corpus="toy", num_states=7, rows=rows)


def test_the_least_mean_error_on_dev_is_chosen_not_the_luckiest_seed(results: Results) -> None:
    assert [(one.model, one.seed) for one in results.chosen("kernel")] == [("laplacian", 0), ("laplacian", 1)]
    assert results.chosen("combination") == []


def cells(table: str, name: str) -> list[str]:
    line = next(line for line in table.splitlines() if line.startswith(name))
    return [cell for cell in line[len(name) :].split("  ") if cell]


def test_the_comparison_has_a_column_a_kind_and_means_with_their_spread(results: Results) -> None:
    table = comparison(results)
    assert table.split()[:5] == ["best", "network", "best", "kernel", "GMM"]
    assert [cell.strip() for cell in cells(table, "PER dev %")] == ["25.00 ± 0.00", "24.50 ± 0.71", "35.00"]
    assert [cell.strip() for cell in cells(table, "PER test %")] == ["27.00 ± 0.00", "27.00 ± 1.41", "36.00"]
    assert [cell.strip() for cell in cells(table, "CE")] == ["1.000 ± 0.000", "1.000 ± 0.000", "-"]
    assert "both" not in table  # nothing was combined


def test_the_list_has_every_model_and_a_dash_for_test_of_those_not_chosen(results: Results) -> None:
    table = all_models(results)
    assert [line.split()[0] for line in table.splitlines()[1:]] == ["gaussian", "laplacian", "tanh", "sat"]
    assert [cell.strip() for cell in cells(table, "gaussian")][-3:] == ["25.00 ± 7.07", "-", "9 ± 0"]


def test_the_protocol_says_that_speech_is_synthetic(results: Results) -> None:
    assert "Synthetic speech" in protocol(results)
    assert "Synthetic" not in protocol(replace(results, synthetic=False))
    assert "per_sil_scored" in protocol(results)


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    path = results.write(tmp_path)
    assert read_results(tmp_path) == read_results(path) == results
    path.write_text(json.dumps({"rows": [{"model": "x"}]}))
    with pytest.raises(ValueError, match="is not what `bochner asr run` writes"):
        read_results(tmp_path)
