"""`bochner demo` on a few digits, with recorded results instead of the speech."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_diabetes, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_info

from bochner.acoustic.results import Results, Row
from bochner.kernels import Gaussian
from bochner.studies import demo
from tests.brief import brief_search
from tests.cli.files import run

__all__ = ["brief_search"]

ROWS = 240


def few_rows(load: Any) -> Any:
    def loaded() -> Any:
        X, y = load(return_X_y=True)
        return X[:ROWS], y[:ROWS]

    return loaded


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "SPLITS", (0, 1))
    monkeypatch.setattr(demo, "RANKS", (5, 10))
    sets = {"digits": few_rows(load_digits), "diabetes": few_rows(load_diabetes)}
    monkeypatch.setattr(demo, "_table_sets", lambda: sets)


def results(gmm: float, kernel: float, network: float, half_width: float) -> Results:
    rows = [
        Row(
            model=kind, kind=kind, settings={}, seed=0, heldout={}, dev={"ter": error}, seconds=1.0,
            test={"ter": error, "low": error - half_width, "high": error + half_width, "tokens": 500},
            directory="models/x",
        )
        for kind, error in (("gmm", gmm), ("kernel", kernel), ("network", network))
    ]  # fmt: skip
    return Results(
        recipe=demo.load_recipe(demo.RECIPE).to_dict(), protocol="per39", synthetic=True, corpus="c", num_states=3,
        rows=rows,
    )  # fmt: skip


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_recipe(recipe: Any, directory: Path, **options: Any) -> Results:
        made = results(0.3, 0.2, 0.25, 0.1)
        directory.mkdir(parents=True, exist_ok=True)
        made.write(directory)
        return made

    monkeypatch.setattr(demo.experiment, "run_recipe", run_recipe)


def test_errors_of_tables_are_those_of_the_models_on_the_splits(tmp_path: Path) -> None:
    part = demo.tables(tmp_path)
    assert part.table[0] == ["test error in %", "digits", "diabetes"]
    X, y = few_rows(load_digits)()
    errors = []
    for seed in (0, 1):
        A, B, a, b = train_test_split(X, y, test_size=1 / 3, random_state=seed, stratify=y)
        errors.append(100 * (1 - RandomForestClassifier(random_state=0).fit(A, a).score(B, b)))
    cells = {line[0]: line[1:] for line in part.table[1:]}
    assert cells["scikit-learn forest"][0] == f"{np.mean(errors):.1f} ± {np.std(errors, ddof=1):.1f}"
    means = [[float(cell.split()[0]) for cell in line] for line in cells.values()]
    wins = sum(column[0] == min(column) for column in zip(*means, strict=True))
    assert f"on {wins} of 2 tables" in part.answer


def test_finished_parts_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "METHODS", dict.fromkeys(("fourier", "nystrom", "svd"), "a method"))
    first = demo.lowrank_factors(tmp_path)
    monkeypatch.setattr(demo, "_frobenius_errors", lambda: pytest.fail("measured twice"))
    assert demo.lowrank_factors(tmp_path).table == first.table


def test_errors_of_factors_against_the_optimum_from_eigenvalues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "METHODS", dict.fromkeys(("fourier", "nystrom", "svd"), "a method"))
    part = demo.lowrank_factors(tmp_path)
    X = torch.from_numpy(few_rows(load_digits)()[0])
    kernel = Gaussian().with_bandwidth("median", X.float(), generator=torch.Generator().manual_seed(0))
    values = torch.linalg.eigvalsh(kernel(X)).flip(0)
    optimum = [100 * float(values[rank:].norm() / values.norm()) for rank in (5, 10)]
    cells = {line[0]: [float(cell) for cell in line[1:]] for line in part.table[1:]}
    assert cells["svd"] == pytest.approx(optimum, abs=0.02)
    assert all(cells["svd"][i] <= cells["nystrom"][i] + 0.02 < cells["fourier"][i] for i in (0, 1))
    assert re.search(r"nystrom is within \d", part.answer)


@pytest.mark.parametrize(("half_width", "decided"), [(0.1, False), (0.001, True)])
def test_the_sentence_about_speech_says_whether_intervals_overlap(
    half_width: float, decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = results(0.3, 0.2, 0.25, half_width)
    monkeypatch.setattr(demo.experiment, "run_recipe", lambda *_, **__: made)
    monkeypatch.setattr(demo, "write_speech_report", lambda directory: None)
    part = demo.speech(tmp_path, workers=1, verbose=False)
    assert "The kernel model has the lowest phone error rate, 20.0 % (network: 25.0 %; GMM: 30.0 %)" in part.answer
    assert ("overlap" not in part.answer) == decided
    assert part.table[1] == ["kernel model", f"20.0 ± {100 * half_width:.1f}"]


def test_the_demonstration_computes_in_one_thread(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before, seen = torch.get_num_threads(), []
    part = demo.Part("", "", "", [[""]], "", lambda: None, "")
    for name in ("tables", "lowrank_factors", "speech"):
        monkeypatch.setattr(demo, name, lambda *_, **__: seen.append(threads()) or part)
    monkeypatch.setattr(demo, "write_page", lambda parts, root: root)
    torch.set_num_threads(2)
    try:
        demo.run_demo(tmp_path, show=lambda part: None)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [{1}] * 3


def threads() -> set[int]:
    """The numbers of threads of torch and of the libraries that scikit-learn and LightGBM use."""
    return {torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info())}


def test_the_command_prints_three_tables_and_writes_one_page(
    recorded: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(demo, "METHODS", dict.fromkeys(("fourier", "nystrom", "svd"), "a method"))
    outcome = run(capsys, "demo", "--output_dir", tmp_path)
    assert outcome.code == 0, outcome.err
    page = (tmp_path / "report.html").read_text()
    for words in ("test error in %", "rank 10", "phone error rate in %"):
        assert words in outcome.out
        assert words in page
    ending = " ".join(outcome.out.split())
    winners = r"are those of the kernel model on \d of 2 tables, nystrom among low-rank factors, and the kernel model "
    assert re.search(winners + r"on speech \(not significant\)\. The report is \S+/report\.html\.$", ending)
    assert (tmp_path / re.search(r'<a href="(speech/\S+)">', page)[1]).exists()


def test_a_missing_package_of_the_extra_is_an_error_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    monkeypatch.setattr(demo, "tables", lambda root: pytest.fail("computed"))
    outcome = run(capsys, "demo", "--output_dir", tmp_path)
    assert outcome.code != 0
    assert "bochner[demo]" in outcome.err
