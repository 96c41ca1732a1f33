"""The study of feature selection: the papers' finding on synthetic data, and equal treatment of all cells."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Generator

from bochner.adaptation.selection import chance_survival
from bochner.data import ArraySource, classes_of
from bochner.data.blocks import num_rows
from bochner.report import Page
from bochner.studies import feature_selection as study
from bochner.studies.feature_selection import ALGORITHM_1, FOBOS, NONE, SELECTIONS, SIZES, SPARSE, Setting, Size, gains
from bochner.studies.intervals import intervals, resample
from bochner.studies.study import Row

NUM_INPUTS, USEFUL = 20, 4
SMOKE = SIZES["smoke"]


def synthetic(num_rows: int = 5000) -> study.Parts:
    return study.synthetic_data(num_rows=num_rows, num_inputs=NUM_INPUTS, num_useful=USEFUL)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return study.run(synthetic(), size=SMOKE, selections=(NONE, ALGORITHM_1), seeds=range(2), verbose=False)


def test_frames_of_timit_have_the_phones_of_train(shared_data: Callable[[str], Path]) -> None:
    pytest.importorskip("soundfile", reason="frames need bochner[speech]")
    parts = study._timit(shared_data("timit_nltk_sample.zip"))
    assert (parts.train.num_inputs, parts.num_classes <= 48) == (429, True)
    for source in (parts.train, parts.heldout, parts.test):
        assert 0 <= int(classes_of(source).min()) <= int(classes_of(source).max()) < parts.num_classes


def test_selection_helps_laplacian_clearly_and_gaussian_hardly(rows: list[Row]) -> None:
    (gain,) = gains(rows).values()
    assert gain["laplacian"] > 0.12
    assert gain["sparse-gaussian"] > 0.05
    assert -0.03 < gain["gaussian"] < 0.5 * min(gain["laplacian"], gain["sparse-gaussian"])
    spreads = [row["ce_spread"] for row in rows if row["kernel"] == "laplacian"]
    losses = [row["ce"] for row in rows if row["kernel"] == "laplacian"]
    assert losses[0] - losses[1] > 2 * max(spreads)


def test_the_gain_shows_on_rows_that_no_choice_has_seen(rows: list[Row]) -> None:
    tests = {(row["kernel"], row["selection"]): row["test_ce"] for row in rows}
    assert all(row["test_ce"] != row["ce"] for row in rows)
    assert tests["laplacian", ALGORITHM_1] < 0.9 * tests["laplacian", NONE]
    assert abs(tests["gaussian", ALGORITHM_1] / tests["gaussian", NONE] - 1) < 0.06


def test_selected_features_survive_and_look_at_the_useful_inputs(rows: list[Row]) -> None:
    chance = chance_survival(SMOKE.rounds)
    weights = {}
    for row in rows:
        weights[row["kernel"], row["selection"]] = torch.tensor(row["input_weights"])
        assert weights[row["kernel"], row["selection"]].mean() == pytest.approx(1)
        if row["selection"] == ALGORITHM_1:
            assert (torch.tensor(row["survival"])[:3] > 3 * chance[:3]).all()
        else:
            assert row["survival"] == ()
    useful = {cell: float(values[:USEFUL].mean()) for cell, values in weights.items()}
    for kernel in ("laplacian", "sparse-gaussian"):
        assert useful[kernel, ALGORITHM_1] > 1.4 * useful[kernel, NONE]
    assert useful["gaussian", ALGORITHM_1] < 1.3 * useful["gaussian", NONE]


def test_survival_and_weights_of_inputs_have_intervals_over_seeds() -> None:
    measured = study.run(
        synthetic(2000), size=SMOKE, kernels=["laplacian"], selections=[ALGORITHM_1], seeds=range(3), verbose=False
    )
    replicates = resample(measured, ["data", "kernel", "selection"])
    assert replicates is not None
    for values in (study._survival, study._largest_weight):
        ((name, value),) = values(measured).items()
        ends = intervals({name: value}, [values(drawn) for drawn in replicates.rows], replicates.num_seeds)[name]
        assert value is not None
        assert ends is not None
        assert ends[0] < value < ends[1]
        assert values([{**row, "per_seed": {"ce": row["per_seed"]["ce"]}} for row in measured]) == {}


def test_fobos_selects_worse_than_algorithm_1(rows: list[Row]) -> None:
    fobos = study.run(synthetic(), size=SMOKE, kernels=["laplacian"], selections=[FOBOS], seeds=range(2), verbose=False)
    fobos_gain = gains([*rows, *fobos], FOBOS)[rows[0]["data"]]["laplacian"]
    algorithm_gain = gains(rows)[rows[0]["data"]]["laplacian"]
    assert fobos_gain < algorithm_gain - 0.08


def test_sparse_random_features_gain_too(rows: list[Row]) -> None:
    sparse = study.run(
        synthetic(), size=SMOKE, kernels=["laplacian"], selections=[SPARSE], seeds=range(2), verbose=False
    )
    assert gains([*rows, *sparse], SPARSE)[rows[0]["data"]]["laplacian"] > 0.02
    assert len(sparse[0]["survival"]) == SMOKE.rounds - 1


def test_tables_and_plots_hold_every_cell(rows: list[Row]) -> None:
    pages = {show: Page("Selection") for show in (study.show_losses, study.show_survival, study.show_inputs)}
    for show, page in pages.items():
        show(page, rows)
        assert page.html().count("<svg") == 1
    html = pages[study.show_losses].html()
    assert html.count("<tr>") == 1 + len(rows) == 7
    assert html.count("%</td>") == 3  # the change by Algorithm 1, of each kernel
    alone = Page("Selection")
    study.show_losses(alone, [rows[1]])
    assert "%</td>" not in alone.html()  # no change without something to compare with


def test_same_seeds_same_rows() -> None:
    parts, size = synthetic(800), Size(16, 4, 200, 3, 64, (1.0,), (1.0,))
    first, second = (study.run(parts, size=size, kernels=["gaussian"], seeds=[3], verbose=False) for _ in range(2))
    assert [row["selection"] for row in first] == list(SELECTIONS)
    assert first == second


def test_each_setting_is_tuned_in_turn_and_never_on_the_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def loss(cell: study._Experiment, setting: Setting) -> float:
        tried.append(setting)
        return abs(setting.bandwidth - 2) + abs(setting.selection_rate - 16) + abs(setting.rate - 1)

    monkeypatch.setattr(study._Experiment, "_tuning_loss", loss)
    parts, size = synthetic(100), Size(bandwidths=(1.0, 2.0), rates=(4.0, 1.0, 16.0))
    assert study._Experiment(parts, size, "gaussian", ALGORITHM_1, "cpu").tune() == Setting(2.0, 16.0, 1.0)
    assert len(tried) == len(set(tried)) == 2 + 2 + 2  # nothing is fitted twice
    tried.clear()
    assert study._Experiment(parts, size, "gaussian", NONE, "cpu").tune() == Setting(2.0, 4.0, 1.0)
    assert len(tried) == 2 + 2  # without selection its rate is not tuned


def test_a_diverging_rate_is_not_chosen() -> None:
    size = Size(16, 4, 200, 2, 64, (1.0,), (2.0, 1e38))
    tuned = study._Experiment(synthetic(800), size, "gaussian", ALGORITHM_1, "cpu").tune()
    assert tuned == Setting(1.0, 2.0, 2.0)


def test_parts_are_disjoint_and_scaled_by_the_training_rows() -> None:
    X = torch.arange(1000.0)[:, None] * torch.tensor([1.0, 0.001]) + 5
    parts = study.divide("ramp", ArraySource(X, torch.arange(1000) % 3), seed=1)
    assert parts.num_classes == 3
    assert [num_rows(part) for part in (parts.train, parts.heldout, parts.test)] == [640, 160, 200]
    values = torch.cat([part.read(0).X[:, 0] for part in (parts.train, parts.heldout, parts.test)])
    assert len(values.unique()) == 1000
    scaled = parts.train.read(0).X
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(2), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(dim=0, unbiased=False), torch.ones(2), atol=1e-4, rtol=0)
    raw = study.divide("ramp", ArraySource(X, torch.arange(1000) % 3), standardize=False)
    assert raw.train.read(0).X.min() >= 5


def test_made_classes_depend_on_the_useful_inputs_alone() -> None:
    block = synthetic(6000).train.read(0)
    counts = torch.bincount(block.y) / len(block.y)
    assert (counts - 1 / 3).abs().max() < 0.03
    strength = torch.stack([block.X[block.y == c].mean(dim=0) for c in range(3)]).abs().max(dim=0).values
    assert strength[:USEFUL].min() > 3 * strength[USEFUL:].max()


def test_bad_arguments() -> None:
    with pytest.raises(
        ValueError, match=r"selections must be one of \['none', .*'sparse random features'\], got 'lasso'"
    ):
        study.run(synthetic(100), size=SMOKE, selections=["lasso"], verbose=False)
    X = torch.randn(50, 2, generator=Generator().manual_seed(0))
    with pytest.raises(ValueError, match="source must have class indices as targets, got floats"):
        study.divide("floats", ArraySource(X, X[:, 0]))
