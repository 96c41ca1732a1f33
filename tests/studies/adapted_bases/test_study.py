"""The study of adapted bases: its parts, its cells, what is kept and what the page shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from bochner.studies.adapted_bases import run as running
from bochner.studies.adapted_bases.__main__ import study
from bochner.studies.adapted_bases.cells import BASES, Cell, measure
from bochner.studies.adapted_bases.maps import MAPS, draw
from bochner.studies.adapted_bases.rows import best_of, rows_of
from bochner.studies.adapted_bases.run import FIGURES, SIZES, cells_of, run
from bochner.studies.adapted_bases.sets import halves, load
from bochner.studies.ledger import Ledger

SHOWN = ("figure 1", "figure 2")


def write(path: Path, num_train: int, num_test: int, num_classes: int) -> None:
    random = np.random.RandomState(0)
    y = random.randint(0, num_classes, num_train + num_test)
    X = (1.2 * random.randn(num_classes, 6))[y] + random.randn(len(y), 6) + 5
    y = 2 * y + 1  # classes need not be 0, 1, ..
    np.savez(path, X_train=X[:num_train], y_train=y[:num_train], X_test=X[num_train:], y_test=y[num_train:])


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "satimage_scale.npz", 800, 200, 3)
    write(folder / "mnist.npz", 10_500, 300, 10)
    X = np.random.RandomState(1).rand(11_000, 6)
    np.savez(folder / "covtype_sample.npz", X=X, y=(X[:, 0] > 0.5) + 1, X_raw=X[:1])
    return folder


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


def test_finished_cells_are_never_measured_again(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [Cell("satimage", "gaussian cosine", basis, 10, "smoke", seed=0) for basis in BASES]
    run(cells, data_dir, Ledger(tmp_path / "cells.jsonl", Cell))
    finished = Ledger(tmp_path / "cells.jsonl", Cell)
    results = {cell.basis: finished.get(cell) for cell in cells}
    assert all(result is not None and 0.5 < result["accuracy"] <= 1 for result in results.values())
    assert results["unsupervised"]["kernel_error"] < results["random"]["kernel_error"]  # type: ignore[index]
    assert results["supervised"]["alignment"] > results["random"]["alignment"]  # type: ignore[index]

    def fail(cell: Cell) -> dict[str, float]:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(running, "measuring", lambda where: fail)
    run(cells, data_dir, finished)
    with pytest.raises(
        RuntimeError, match=r"1 of 1 cells failed, Cell\(.*seed=7.*: out of memory. The others are kept in"
    ):
        run([*cells, Cell("satimage", "gaussian", "random", 10, "smoke", seed=7)], data_dir, finished)


def test_a_transfer_measures_both_tasks(data_dir: Path) -> None:
    result = measure(Cell("mnist", "gaussian", "random", 20, "smoke", seed=0, transfer=True), data_dir)
    assert 0.5 < result["accuracy"] <= 1
    assert 0.5 < result["transfer_accuracy"] <= 1
    assert result["accuracy"] != result["transfer_accuracy"]
    whole = measure(Cell("mnist", "gaussian", "random", 20, "smoke", seed=0), data_dir)
    assert whole["accuracy"] < min(result["accuracy"], result["transfer_accuracy"])  # ten classes are harder than five


def test_the_best_number_of_features_is_chosen_on_heldout_rows(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "cells.jsonl", Cell)
    for num_features, heldout, test in ((10, 0.9, 0.8), (30, 0.8, 0.95)):
        for seed in (0, 1):
            cell = Cell("mnist", "gaussian", "random", num_features, "smoke", seed)
            ledger.add(cell, {"heldout_accuracy": heldout, "accuracy": test + 0.02 * seed})
    rows = rows_of(list(ledger._results), Ledger(tmp_path / "cells.jsonl", Cell))
    best = best_of(rows)
    assert best is not None
    assert (best.cell.num_features, best.trials) == (10, 2)
    assert best.mean["accuracy"] == pytest.approx(0.81)
    assert best.spread["accuracy"] == pytest.approx(0.01)
    assert best_of([]) is None


def test_the_page_holds_every_cell_beside_the_published_numbers(data_dir: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "cells.jsonl", Cell)
    for figure in SHOWN:
        for place, cell in enumerate(cells_of(figure, SIZES["smoke"], ["mnist"])):
            result = {"accuracy": 0.9 + place / 1000, "heldout_accuracy": 0.9, "kernel_error": 0.001}
            result |= {"alignment": 0.5, "epochs": 3.0, "seconds": 1.0, "transfer_accuracy": 0.8}
            ledger.add(cell, result)
    page = tmp_path / "docs" / "page.md"
    study(data_dir, size="smoke", sets="mnist", ledger=ledger.path, page=page, measure=False)
    text = page.read_text()
    assert "| mnist | gaussian | 90.0 (98.2), D = 10 | 90.1 (98.2), D = 10 | 90.2 (98.3), D = 10 |" in text
    lines = text.splitlines()
    known = set(FIGURES["figure 1"])  # other figures show the cells that they share with it
    expected = [kernel for kernels in FIGURES.values() for kernel in kernels if kernel in known]
    assert len([line for line in lines if "| RB |" in line and "±" in line]) == 2 * len(expected)
    for figure in SHOWN:
        picture = page.parent / f"assets/adapted_bases/{figure.replace(' ', '_')}.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
    heads = [line for line in lines if line.startswith("| mnist, gaussian cosine: D")]
    assert ["task 2" in line for line in heads] == [False, True, False]


def test_one_figure_from_the_command_line(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("accuracy", "heldout_accuracy", "kernel_error", "alignment", "epochs", "seconds")
    monkeypatch.setattr(running, "measuring", lambda where: lambda cell: dict.fromkeys(names, 0.5))
    places = {"ledger": tmp_path / "cells.jsonl", "page": tmp_path / "page.md"}
    study(data_dir, size="smoke", parts="figure 3", sets="satimage", num_features="10", seeds="0", **places)
    assert len((tmp_path / "cells.jsonl").read_text().splitlines()) == 12
    assert "| satimage, arccos3: D |" in (tmp_path / "page.md").read_text()
    assert "Page: " in capsys.readouterr().out


def test_bad_arguments(data_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sets must be one of .*, got 'cifar'"):
        cells_of("figure 1", SIZES["smoke"], ["cifar"])
    with pytest.raises(ValueError, match=r"parts must be one of .*, got 'figure 9'"):
        cells_of("figure 9", SIZES["smoke"], ["mnist"])
    (tmp_path / "bad.jsonl").write_text('{"cell": {"data": "mnist"}, "result": {}}\n')
    with pytest.raises(ValueError, match=r"bad.jsonl, line 1 must be a finished cell; remove that line"):
        Ledger(tmp_path / "bad.jsonl", Cell)
