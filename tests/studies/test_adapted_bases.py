"""The studies of adapted bases: data, cells, measurements and the Markdown page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bochner.studies import adapted_bases
from bochner.studies.adapted_bases import BASES, FIGURES, MAPS, Cell, cells_of, draw, halves, load, prepare
from bochner.studies.adapted_bases_report import STUDIES, best_of, means_of, write_page
from bochner.studies.registry import study_named
from bochner.studies.results_file import Result
from bochner.studies.study import run_study
from bochner.studies.workers import Context

MEASURED = ("figure 1", "figure 2")


def write(path: Path, num_train: int, num_test: int, num_classes: int) -> None:
    random = np.random.RandomState(0)
    y = random.randint(0, num_classes, num_train + num_test)
    X = (1.2 * random.randn(num_classes, 6))[y] + random.randn(len(y), 6) + 5
    y = 2 * y + 1  # classes need not be 0, 1, ..
    np.savez(path, X_train=X[:num_train], y_train=y[:num_train], X_test=X[num_train:], y_test=y[num_train:])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    write(directory / "satimage_scale.npz", 800, 200, 3)
    write(directory / "mnist.npz", 10_500, 300, 10)
    X = np.random.RandomState(1).rand(11_000, 6)
    np.savez(directory / "covtype_sample.npz", X=X, y=(X[:, 0] > 0.5) + 1, X_raw=X[:1])
    return directory


def test_parts_are_centred_and_scaled_by_the_training_file(data_dir: Path) -> None:
    parts = load("satimage", data_dir)
    assert [len(part.X) for part in parts] == [300, 500, 200]
    assert parts.num_classes == 3
    whole = torch.cat([parts.train.X, parts.heldout.X])
    torch.testing.assert_close(whole.mean(dim=0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(whole.abs().max(dim=0).values, torch.ones(6))
    assert sorted(parts.test.y.unique().tolist()) == [0, 1, 2]
    without_test = load("covtype", data_dir)
    assert [len(part.X) for part in without_test] == [800, 8000, 2200]


def test_halves_share_no_class_and_cover_all(data_dir: Path) -> None:
    parts = load("mnist", data_dir)
    first, second = halves(parts, seed=1)
    assert len(first.test.y) + len(second.test.y) == len(parts.test.y)
    assert first.num_classes == second.num_classes == 5
    original = {tuple(row): label for row, label in zip(parts.test.X.tolist(), parts.test.y.tolist(), strict=True)}
    classes = [{original[tuple(row)] for row in half.test.X.tolist()} for half in (first, second)]
    assert classes[0] | classes[1] == set(range(10))
    assert not classes[0] & classes[1]
    assert not torch.equal(halves(parts, seed=2)[0].test.X, first.test.X)


@pytest.mark.parametrize("kernel", MAPS)
def test_every_map_has_the_features_asked_for(data_dir: Path, kernel: str) -> None:
    X = load("satimage", data_dir).train.X
    z = draw(kernel, X, 12, generator=torch.Generator().manual_seed(0))
    depth = int(kernel[-1]) if kernel.startswith("arccos") else 1
    assert z(X).shape == (300, 12 // depth)


def test_adapted_bases_approximate_or_classify_better_and_cells_are_measured_once(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = replace(study_named("adapted-bases"), cells=lambda size: CELLS)
    rows = {row["basis"]: row for row in run_study(study, data_dir, tmp_path, size="smoke").rows}
    assert all(0.5 < row["accuracy"] <= 1 for row in rows.values())
    assert rows["unsupervised"]["kernel_error"] < rows["random"]["kernel_error"]
    assert rows["supervised"]["alignment"] > rows["random"]["alignment"]

    def fail(cell: Cell) -> Result:
        raise RuntimeError("out of memory")

    failing = replace(study, prepare=lambda context: fail)
    run_study(failing, data_dir, tmp_path, size="smoke")
    with pytest.raises(RuntimeError, match=r"4 of 4 cells failed, the first: Cell\(.*seed=7.*: out of memory"):
        run_study(failing, data_dir, tmp_path, size="smoke", seeds=[0, 7])


CELLS = [Cell("satimage", "gaussian cosine", basis, 10, "smoke", seed=0) for basis in BASES]


def test_a_transfer_measures_both_tasks(data_dir: Path) -> None:
    measure = prepare(Context(data_dir))
    result = measure(Cell("mnist", "gaussian", "random", 20, "smoke", seed=0, transfer=True))
    assert 0.5 < result["accuracy"] <= 1
    assert 0.5 < result["transfer_accuracy"] <= 1
    assert result["accuracy"] != result["transfer_accuracy"]
    whole = measure(Cell("mnist", "gaussian", "random", 20, "smoke", seed=0))
    assert whole["accuracy"] < min(result["accuracy"], result["transfer_accuracy"])  # ten classes are harder than five


def test_a_transfer_adapts_at_adams_rate_and_chooses_nothing_on_task_2(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, rates, original = [], [], (adapted_bases.fit_basis, adapted_bases.train)

    def fit_basis(*arguments: Any, settings: Any, **options: Any) -> Any:
        plans.append(settings)
        return original[0](*arguments, settings=settings, **options)

    def train(model: Any, rows: Any, heldout: Any, settings: Any, **options: Any) -> Any:
        rates.append(settings.learning_rate)
        return original[1](model, rows, heldout, settings, **options)

    monkeypatch.setattr(adapted_bases, "fit_basis", fit_basis)
    monkeypatch.setattr(adapted_bases, "train", train)
    cell = Cell("mnist", "gaussian", "discriminative", 10, "smoke", seed=0, transfer=True)
    prepare(Context(data_dir))(cell)
    assert (plans[0].decay, round(0.6745 * plans[0].learning_rate, 6)) == (1.0, 1e-3)
    assert rates[0] == "auto"
    assert isinstance(rates[1], float)
    assert len(rates) == 2


def test_the_best_number_of_features_is_chosen_on_heldout_rows() -> None:
    results = {}
    for num_features, heldout, test in ((10, 0.9, 0.8), (30, 0.8, 0.95)):
        for seed in (0, 1):
            cell = Cell("mnist", "gaussian", "random", num_features, "smoke", seed)
            results[cell] = {"heldout_accuracy": heldout, "accuracy": test + 0.02 * seed}
    best = best_of(means_of(results, results))
    assert best is not None
    assert (best.cell.num_features, best.trials) == (10, 2)
    assert best.mean["accuracy"] == pytest.approx(0.81)
    assert best.spread["accuracy"] == pytest.approx(0.01)
    assert best_of([]) is None


def test_the_page_holds_every_cell_beside_the_published_numbers(tmp_path: Path) -> None:
    results = {}
    for figure in MEASURED:
        for place, cell in enumerate(cells_of(figure, "smoke", sets=["mnist"])):
            numbers = {"accuracy": 0.9 + place / 1000, "heldout_accuracy": 0.9, "kernel_error": 0.001}
            results[cell] = numbers | {"alignment": 0.5, "epochs": 3.0, "seconds": 1.0, "transfer_accuracy": 0.8}
    page = tmp_path / "docs" / "page.md"
    write_page(results, page, size="smoke", sets=["mnist"], command="make page")
    text = page.read_text()
    assert "Written by `make page`" in text
    assert "| mnist | gaussian | 90.0 (98.2), D = 10 | 90.1 (98.2), D = 10 | 90.2 (98.3), D = 10 |" in text
    lines = text.splitlines()
    expected = [*FIGURES["figure 1"], *FIGURES["figure 2"]]  # the other figures are drawn only
    assert len([line for line in lines if "| RB |" in line]) == 1 + len(expected) + len(FIGURES["figure 2"])
    assert "| 10 | 90.0 | 90.1 | 90.2 | 90.3 |" in lines
    for figure in MEASURED:
        picture = page.parent / f"assets/adapted_bases/{figure.replace(' ', '_')}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
    heads = [line for line in lines if line.startswith("| mnist, gaussian: D")]
    assert heads == ["| mnist, gaussian: D | RB | UAB | SAB | DAB |"] * 2


def test_options_replace_the_values_of_the_size() -> None:
    study = study_named("adapted-deep-kernels")
    cells = study.select("smoke", sets=["satimage", "a9a"], num_features=[12], seeds=[3])
    assert len(cells) == 24
    assert {(cell.data, cell.num_features, cell.effort, cell.seed) for cell in cells} == {
        ("satimage", 12, "smoke", 3),
        ("a9a", 12, "smoke", 3),
    }
    paper, short = study.select("paper"), study.select("paper", effort="small")
    assert [replace(cell, effort="small") for cell in paper] == short
    assert max(cell.num_features for cell in short) == 30_000
    transfer = study_named("adapted-transfer").select("paper")
    assert ({cell.data for cell in transfer}, {cell.seed for cell in transfer}) == ({"mnist"}, set(range(5)))
    assert {(cell.kernel, cell.num_features) for cell in transfer} == {
        ("gaussian", count) for count in (300, 1_000, 3_000, 10_000)
    }


def test_bad_arguments() -> None:
    for study in STUDIES:
        with pytest.raises(ValueError, match=r"sets must be one of .*, got 'cifar'"):
            study.select("smoke", sets=["cifar"])
    with pytest.raises(ValueError, match=r"effort must be one of .*, got 'large'"):
        STUDIES[0].select("smoke", effort="large")
    with pytest.raises(ValueError, match=r"figure must be one of .*, got 'figure 9'"):
        cells_of("figure 9", "smoke")
