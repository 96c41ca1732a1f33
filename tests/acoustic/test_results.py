"""Results: the chosen models, means over seeds, and the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bochner.acoustic.results import Results, Row, Table, across, all_models, comparison, protocol, read_results


def row(model: str, kind: str, dev: float, *, seed: int = 0, test: float | None = None, **changes: Any) -> Row:
    scored = None if test is None else {"ter": test, "low": test - 0.01, "high": test + 0.01, "tokens": 100}
    heldout = {"ce": 1.0, "perplexity": 2.7, "perplexity_silence_collapsed": 2.5, "ent": 0.5, "erll": 1.5, "err": 0.3}
    plain = Row(
        model=model, kind=kind, settings={}, seed=seed, heldout=heldout, dev={"ter": dev}, test=scored, seconds=9.0,
        directory=f"models/{model}",
    )  # fmt: skip
    return replace(plain, **changes)


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
    assert [(row.model, row.seed) for row in results.chosen("kernel")] == [("laplacian", 0), ("laplacian", 1)]
    assert results.chosen("combination") == []


def cells(table: Table, name: str) -> list[str]:
    return next(line[1:] for line in table if line[0] == name)


def test_the_comparison_has_one_column_per_kind_and_means_over_seeds(results: Results) -> None:
    table = comparison(results)
    assert table[0] == ["", "best network", "best kernel", "GMM"]  # nothing was combined
    assert cells(table, "PER dev %") == ["25.00 ± 0.00", "24.50 ± 0.71", "35.00"]
    assert cells(table, "PER test %") == ["27.00 ± 0.00", "27.00 ± 1.41", "36.00"]
    assert cells(table, "CE") == ["1.000 ± 0.000", "1.000 ± 0.000", "-"]


def test_the_list_has_a_dash_for_models_that_were_not_tested(results: Results) -> None:
    table = all_models(results)
    assert [line[0].split()[0] for line in table[1:]] == ["gaussian", "laplacian", "tanh", "sat"]
    assert cells(table, "gaussian")[-3:] == ["25.00 ± 7.07", "-", "9 ± 0"]


def test_runs_are_compared_in_one_table(results: Results) -> None:
    other = replace(results, protocol="wer", rows=results.of_kind("network"))
    table = across([results, other])
    assert table[0] == ["", "protocol", "error", "seeds", "states", "best network", "best kernel", "GMM"]
    assert [line[2] for line in table[1:]] == ["PER", "WER"]
    assert table[1][5:] == ["27.00 ± 0.00", "27.00 ± 1.41", "36.00"]
    assert table[2][5:] == ["27.00 ± 0.00", "-", "-"]


@pytest.mark.parametrize("name", ["modern", "papers"])
def test_tables_state_the_protocol_of_training(results: Results, name: str) -> None:
    other = replace(results, recipe={**results.recipe, "protocol": name})
    assert [line[1] for line in across([results, other])[1:]] == ["-", name]
    assert f"Protocol {name}" in protocol(other)
    assert "Protocol" not in protocol(results)  # of 0.1


def test_the_protocol_says_that_speech_is_synthetic(results: Results) -> None:
    assert "synthetic" in protocol(results)
    assert "synthetic" not in protocol(replace(results, synthetic=False))
    assert "per_sil_scored" in protocol(results)


def test_results_are_read_as_they_were_written(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    path = tmp_path / "results.json"
    assert read_results(tmp_path) == read_results(path) == results
    for broken in (json.dumps({"rows": [{"model": "x"}]}), "{", "[" * 10_000):
        path.write_text(broken)
        with pytest.raises(ValueError, match="is not a results file"):
            read_results(tmp_path)


def test_results_of_version_0_1_are_read(results: Results, tmp_path: Path) -> None:
    results.write(tmp_path)
    path = tmp_path / "results.json"
    path.write_text(path.read_text().replace('"directory"', '"folder"'))
    assert read_results(tmp_path) == results
