"""`bochner train`: its files, its output, and its options, which are the arguments of the estimators."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import bochner
from bochner.cli.tables import choose_task, draw_validation, folds, open_training_rows
from bochner.cli.train_directory import TrainDirectory, plain_options
from bochner.data import ArraySource, TableRows, in_order, open_rows, open_source, split
from bochner.data.blocks import num_rows
from bochner.search import SolverParams
from bochner.search.plan import rows_per_shard
from tests.cli.files import NAMES, rings, rings_csv, run, write_csv

Capture = pytest.CaptureFixture[str]


def test_it_writes_a_model_its_configuration_and_its_validation_scores(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 200), tmp_path / "model"
    code, out, err = run(capsys, "train", data, "--target", "ring", "--output_dir", directory)
    assert (code, err) == (0, "")
    model = bochner.load(directory / "model.safetensors")
    assert model.classes_.tolist() == sorted(NAMES)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    scores = json.loads((directory / "validation_scores.json").read_text())
    assert scores["num_rows"] == 20
    assert scores["accuracy"] > 0.7
    assert sorted(path.name for path in directory.iterdir() if path.name != ".lock") == [
        "config.json",
        "model.safetensors",
        "model_card.json",
        "model_card.md",
        "validation_scores.json",
    ]
    for text in ("200 rows, 2 inputs", "task      classify", "solver    exact (preset 'default'", "seed 0"):
        assert text in out
    assert f"bochner predict {directory} {data} --output predictions.csv" in out
    assert f"kernel    {model.kernel_!r}" in out
    assert f"penalty {model.choices_['penalty']:.3g}" in out
    assert "not used for any choice" in out
    assert json.loads((directory / "config.json").read_text())["preset"] == "default"


def test_without_a_search(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 100), tmp_path / "model"
    code, out, err = run(capsys, "train", data, "--target=ring", f"--output_dir={directory}", "--preset=none")
    assert (code, err) == (0, "")
    model = bochner.load(directory / "model.safetensors")
    assert "solver    newton (at most 2,048" in out
    assert f"bandwidth {model.kernel_.bandwidth:.4g} by the median rule" in out
    assert "used for choices" in out
    assert model.preset is None
    assert len(model.model_.landmarks) == 90
    again = ["train", "--config", directory / "config.json", f"--output_dir={tmp_path / 'again'}"]
    assert "solver    newton" in run(capsys, *again).out


def test_a_bandwidth_by_the_neighbor_rule(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 100), tmp_path / "model"
    words = ["train", data, "--target=ring", f"--output_dir={directory}", "--kernel=gaussian", "--bandwidth=neighbor"]
    out = run(capsys, *words).out
    assert (
        f"bandwidth {bochner.load(directory / 'model.safetensors').kernel_.bandwidth:.4g} by the neighbor rule" in out
    )


def test_scoring_and_time_limit_of_a_search(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 100), tmp_path / "model"
    words = ["train", data, "--target=ring", f"--output_dir={directory}", "--preset=fast"]
    assert run(capsys, *words, "--scoring=neg_log_loss", "--time_limit=300").code == 0
    model = bochner.load(directory / "model.safetensors")
    assert (model.scoring, model.time_limit) == ("neg_log_loss", 300)
    assert run(capsys, *words, "--overwrite", "--scoring=loss").code == 1


def test_validation_rows_are_those_of_split_and_none_is_trained_on(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 100)
    run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}", "--random_state=3")
    model = bochner.load(tmp_path / "m" / "model.safetensors")
    _, validation = split(open_source(data, target="ring"), 0.1, seed=3)
    block = validation.read(0)
    right = model.predict(block.X) == np.array(sorted(NAMES))[block.y]
    assert json.loads((tmp_path / "m" / "validation_scores.json").read_text())["accuracy"] == pytest.approx(
        right.mean()
    )
    landmarks = model.model_.model.landmarks.double()
    assert len(landmarks) == 90  # every row but the validation rows
    assert torch.cdist(model.model_.transform(block.X).double(), landmarks).min() > 1e-4


def test_arguments_of_estimators_and_solvers_are_options(capsys: Capture) -> None:
    options = set(re.findall(r"^  --(\w+)", run(capsys, "train", "--help").out, re.MULTILINE))
    for component in (bochner.KernelClassifier, bochner.NetworkRegressor, SolverParams):
        assert {*inspect.signature(component).parameters} - {"solver_params", "checkpoint_dir"} <= options
    assert not {"solver_params", "checkpoint_dir"} & options


def test_the_written_configuration_repeats_the_run(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 120)
    given = ["--target=ring", "--kernel=laplacian", "--alpha=1e-05", "--random_state=5", "--class_weight=balanced"]
    given += ["--preset=fast"]
    run(capsys, "train", data, *given, f"--output_dir={tmp_path / 'a'}")
    again = run(capsys, "train", "--config", tmp_path / "a" / "config.json", f"--output_dir={tmp_path / 'b'}")
    assert again.code == 0
    first, second = (bochner.load(tmp_path / name / "model.safetensors") for name in "ab")
    assert first.get_params(deep=False) == second.get_params(deep=False)
    assert (first.alpha, first.class_weight) == (1e-5, "balanced")
    assert (first.kernel_.exponent, first.kernel_.norm) == (1, 1)
    assert torch.equal(first.model_.model.coefficients, second.model_.model.coefficients)


def test_yaml_with_a_kernel_object(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 80)
    config = tmp_path / "run.yaml"
    config.write_text(
        f"data: {data}\ntarget: ring\noutput_dir: {tmp_path / 'm'}\n"
        "kernel:\n  class_path: bochner.kernels.Matern\n  init_args:\n    smoothness: 1.5\n    bandwidth: 2.0\n"
    )
    assert "Matern, bandwidth 2, as given" in run(capsys, "train", "--config", config).out
    stored = json.loads((tmp_path / "m" / "config.json").read_text())["kernel"]
    assert stored["class_path"] == "bochner.kernels.Matern"
    assert run(capsys, "train", "--config", tmp_path / "m" / "config.json", f"--output_dir={tmp_path / 'n'}").code == 0


@pytest.mark.parametrize("name", ["hostile_module.Hostile", "bochner.cli.main", "os.system"])
def test_yaml_imports_kernels_only(name: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hostile_module.py").write_text("class Hostile: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = tmp_path / "run.yaml"
    config.write_text(f"data: {tmp_path / 'rings.csv'}\nkernel:\n  class_path: {name}\n")
    outcome = run(capsys, "train", "--config", config)
    assert outcome.code == 2
    assert name in outcome.err
    assert "hostile_module" not in sys.modules


def test_options_with_hyphens_and_bare_switches(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 60), tmp_path / "m"
    words = ["--target", "ring", "--output-dir", directory, "--standardize", "--n-components=30"]
    assert run(capsys, "train", "--kernel", "sparse-gaussian", data, *words).code == 0
    model = bochner.load(directory / "model.safetensors")
    assert model.standardize
    assert model.n_components == 30
    assert model.kernel == "sparse-gaussian"
    assert run(capsys, "train", data, *words, "--overwrite", "--standardize", "false").code == 0
    assert not bochner.load(directory / "model.safetensors").standardize


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (["b", "a", "b"], "classify"),
        ([3, 7, 3], "classify"),
        ([True, False, True], "classify"),
        (list(range(100)), "classify"),
        (list(range(101)), "regress"),
        ([1.0, 2.0, 1.0], "regress"),
        (np.zeros((3, 2)), "regress"),
    ],
)
def test_auto_takes_text_and_few_integers_for_classes(y: object, task: str) -> None:
    targets = np.array(y)
    source = ArraySource(np.zeros((len(targets), 1)), targets, shard_rows=40)
    assert choose_task("auto", source).task == task
    assert choose_task("classify", source).task == "classify"


def test_options_of_the_solver_are_flat(tmp_path: Path, capsys: Capture) -> None:
    data, config = rings_csv(tmp_path / "rings.csv", 120), tmp_path / "run.yaml"
    config.write_text("kernel: rbf\nbatch_size: 16\nselection: {rounds: 2, method: rounds}\n")
    words = ["--target=ring", "--preset=none", "--solver=sgd", "--n_components=16", "--max_epochs=2", "--device=cpu"]
    words += [f"--tracking=tensorboard:{tmp_path / 'events'}", f"--output_dir={tmp_path / 'm'}"]
    outcome = run(capsys, "train", data, "--config", config, *words)
    assert outcome.code == 0, outcome.err
    assert list((tmp_path / "events").glob("events*"))
    model = bochner.load(tmp_path / "m" / "model.safetensors")
    assert model.solver_params == {"batch_size": 16, "max_epochs": 2}
    assert (type(model.kernel_).__name__, model.selection) == ("Gaussian", {"rounds": 2, "method": "rounds"})
    stored = json.loads((tmp_path / "m" / "config.json").read_text())
    assert (stored["batch_size"], stored["learning_rate"], stored["model"]) == (16, "auto", "kernel")


@pytest.mark.parametrize(
    "words",
    [["--adapt=agop"], ["--adapt=dab", "--kernel=arc-cosine1"], ["--selection=2"], ["--gamma=0.5", "--kernel=rbf"]],
    ids=" ".join,
)
def test_methods_of_the_papers_are_options(words: list[str], tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 100)
    outcome = run(capsys, "train", data, "--target=ring", "--n_components=16", f"--output_dir={tmp_path / 'm'}", *words)
    assert outcome.code == 0, outcome.err
    assert run(capsys, "predict", tmp_path / "m", data).code == 0


@pytest.mark.parametrize("target", ["ring", "east"])
def test_a_network_is_trained_saved_scored_and_used(target: str, tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 200), tmp_path / "m"
    words = ["--target", target, "--columns=north", "--model=network", "--hidden=[16, 8]", "--max_epochs=3"]
    outcome = run(capsys, "train", data, *words, f"--output_dir={directory}")
    assert outcome.code == 0, outcome.err
    model = bochner.load(directory / "model.safetensors")
    assert (list(model.hidden), model.standardize, model.make_plan().params.optimizer) == ([16, 8], True, "adamw")
    assert not (directory / "checkpoint").exists()
    assert len((directory / "history.jsonl").read_text().splitlines()) <= 3
    assert run(capsys, "evaluate", directory, data, "--target", target).code == 0
    assert len(run(capsys, "predict", directory, data).out.splitlines()) == 201
    assert "[16, 8]" in run(capsys, "info", directory).out
    again = run(capsys, "train", "--config", directory / "config.json", f"--output_dir={tmp_path / 'n'}")
    assert again.code == 0, again.err
    assert (tmp_path / "n" / "history.jsonl").read_text() == (directory / "history.jsonl").read_text()


def test_sgd_leaves_its_history_and_no_checkpoint(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(300)
    np.savez(tmp_path / "rings.npz", X=X, y=y)
    words = ["--solver=sgd", "--n_components=64", "--max_epochs=3", "--num_blocks=2", f"--output_dir={tmp_path / 'm'}"]
    out = run(capsys, "train", tmp_path / "rings.npz", *words, "--preset=fast").out
    assert "solver    sgd (as requested; its kernel by a search, preset 'fast')" in out
    records = [json.loads(line) for line in (tmp_path / "m" / "history.jsonl").read_text().splitlines()]
    assert {record["block"] for record in records} == {0, 1}
    assert f"fit       {len(records)} epochs" in out
    assert not (tmp_path / "m" / "checkpoint").exists()


def test_a_validation_file_has_its_columns_found_by_name(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 100)
    X, y = rings(40, seed=1)
    columns = {"ring": [NAMES[place] for place in y], "north": X[:, 1], "other": y, "east": X[:, 0]}
    validation = write_csv(tmp_path / "validation.csv", columns)
    words = ["train", data, "--target=ring", f"--validation_data={validation}", f"--output_dir={tmp_path / 'm'}"]
    out = run(capsys, *words).out
    assert f"all 40 rows of {validation};" in out
    assert "not trained on, but used for choices" in out
    model = bochner.load(tmp_path / "m" / "model.safetensors")
    accuracy = (model.predict(torch.tensor(X)) == np.array(NAMES)[y]).mean()
    assert json.loads((tmp_path / "m" / "validation_scores.json").read_text())["accuracy"] == pytest.approx(accuracy)
    assert len(model.model_.model.landmarks) == 100


def test_columns_and_weight_choose_the_inputs(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(80)
    data = write_csv(tmp_path / "d.csv", {"a": X[:, 0], "w": np.ones(80), "b": X[:, 1], "c": X[:, 0], "y": y})
    words = ["--target=y", "--weight=w", f"--output_dir={tmp_path / 'm'}"]
    run(capsys, "train", data, *words)
    assert bochner.load(tmp_path / "m" / "model.safetensors").feature_names_in_.tolist() == ["a", "b", "c"]
    run(capsys, "train", data, *words, "--columns", "b, a", "--overwrite")
    assert bochner.load(tmp_path / "m" / "model.safetensors").feature_names_in_.tolist() == ["b", "a"]


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_the_next_commands_run_as_they_are_printed(
    kind: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = rings(60)
    data = write_csv(Path("my rings.csv"), {"a": X[:, 0], "b": X[:, 1], "t": y})
    np.savez("my rings.npz", inputs=X, t=y)
    words = ["--columns", "a,b" if kind == "csv" else "inputs", "--target=t"]
    out = run(capsys, "train", data.with_suffix(f".{kind}"), *words).out
    lines = [line[10:].replace("TEST_DATA", f"'my rings.{kind}'") for line in out.splitlines() if " bochner " in line]
    assert [line.split()[1] for line in lines] == ["predict", "evaluate"]
    for line in lines:
        assert run(capsys, *shlex.split(line)[1:]).code == 0
    assert len(Path("predictions.csv").read_text().splitlines()) == 61


def test_inputs_of_different_units_are_warned_of(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(60)
    wide = {"a": X[:, 0], "b": 1000 * X[:, 1], "y": y}
    rare = {"a": 30 * X[:, 0], "b": (np.arange(60) == 7).astype(int), "y": y}  # 0 and 1: no unit, however rare
    plain = ["--preset=none"]
    for columns, options, is_warned in (
        (wide, plain, True),
        (wide, [*plain, "--standardize"], False),
        (wide, ["--preset=fast"], False),
        (wide, ["--preset=fast", "--bandwidth=2"], True),
        (rare, plain, False),
    ):
        data = write_csv(tmp_path / "d.csv", columns)
        words = ["train", data, "--target=y", "--overwrite", f"--output_dir={tmp_path / 'm'}", *options]
        assert ("use --standardize" in run(capsys, *words).err) == is_warned


def test_quiet_prints_nothing(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 60)
    assert run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}", "--quiet") == (0, "", "")


def test_a_finished_run_is_kept_without_overwrite(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 60), tmp_path / "m"
    words = ["train", data, "--target=ring", f"--output_dir={directory}"]
    run(capsys, *words)
    (directory / "notes.txt").write_text("mine")
    before = (directory / "model.safetensors").read_bytes()
    again = run(capsys, *words)  # as a scheduler repeats a command
    assert again.code == 0
    assert str(directory) in again.out
    code, _, err = run(capsys, *words, "--kernel=laplacian")
    assert code == 1
    assert "kernel: 'auto' there, 'laplacian' here" in err
    assert "choose another --output_dir" in err
    assert "delete it" not in err
    table = data.read_text()
    data.write_text(table.replace("red", "pink"))
    code, _, err = run(capsys, *words)
    assert code == 1
    assert str(data) in err
    data.write_text(table)
    assert (directory / "model.safetensors").read_bytes() == before
    assert run(capsys, *words, "--kernel=laplacian", "--overwrite").code == 0
    assert bochner.load(directory / "model.safetensors").kernel == "laplacian"
    assert (directory / "notes.txt").read_text() == "mine"


def test_a_memory_budget_cuts_the_rows_finer(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", X=np.zeros((5000, 40), np.float32), y=np.arange(5000))
    named = {"target": None, "columns": None, "weight": None}
    whole, fine = (open_training_rows(tmp_path / "d.npz", **named, memory_budget=budget) for budget in (None, "30MB"))
    assert max(whole.shard_sizes) == 5000
    assert max(fine.shard_sizes) == rows_per_shard(30 * 2**20, row_bytes=8 * 40 + 16) < 5000


def test_validation_on_the_training_rows_is_named_as_such(tmp_path: Path, capsys: Capture) -> None:
    data, copy = rings_csv(tmp_path / "rings.csv", 80), tmp_path / "copy.csv"
    copy.write_bytes(data.read_bytes())
    words = ["train", data, "--target=ring", "--preset=fast", f"--output_dir={tmp_path / 'm'}"]
    code, out, err = run(capsys, *words, f"--validation_data={copy}")
    assert code == 0
    assert f"{copy} is the file of the training rows" in err
    assert "the training rows themselves" in out
    assert "not trained on" not in out + (tmp_path / "m" / "model_card.md").read_text()


def test_cross_validation(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 90)
    lines = data.read_text().splitlines()
    data.write_text("\n".join(["name," + lines[0], *(f"n{i},{line}" for i, line in enumerate(lines[1:]))]))
    words = ["train", data, "--target=ring", "--preset=fast", f"--output_dir={tmp_path / 'm'}"]
    code, out, err = run(capsys, *words, "--cv=3")
    assert code == 0
    assert err.splitlines() == [  # of all folds
        "warning: Columns ['name'] are constant, missing or different in all rows, and are dropped."
    ]
    assert "3-fold cross-validation of 90 rows" in out
    assert "fold      3 of 3" in out
    scores = json.loads((tmp_path / "m" / "validation_scores.json").read_text())
    assert scores["num_rows"] == 90
    assert 0.6 < scores["accuracy"] < 1
    assert scores["intervals"]["accuracy"][0] < scores["accuracy"] < scores["intervals"]["accuracy"][1]
    assert len(bochner.load(tmp_path / "m" / "model.safetensors").model_.model.landmarks) == 90
    refused = run(capsys, *words, "--overwrite", "--cv=3", f"--validation_data={data}")
    assert "cv must not be given with validation_data" in refused.err
    assert "cv must be from 2 to the number of rows, 90, got 1" in run(capsys, *words, "--overwrite", "--cv=1").err


def test_folds_are_stratified_and_leave_out_every_row_once() -> None:
    y = np.array([0] * 50 + [1] * 10 + [2])
    source = ArraySource(np.arange(61.0)[:, None], y, shard_rows=7)
    seen: list[float] = []
    for training, validation in folds(source, count=5, is_classification=True, seed=0):
        parts = [np.concatenate([rows.read(s).X[:, 0] for s in range(9)]) for rows in (training, validation)]
        assert len(np.intersect1d(*parts)) == 0
        assert len(parts[0]) + len(parts[1]) == 61
        assert np.bincount(y[parts[1].astype(int)], minlength=3).tolist() == [10, 2, 0]
        seen += parts[1].tolist()
    assert sorted(seen) == list(range(60))


@pytest.mark.parametrize(("name", "directory"), [("w.csv", "w_csv"), ("w.npz", "w_npz")])
def test_the_default_directory_names_the_format(
    name: str, directory: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    X, y = rings(40)
    np.savez("w.npz", X=X, y=y)
    write_csv(Path("w.csv"), {"a": X[:, 0], "b": X[:, 1], "y": y})
    assert run(capsys, "train", name, *(["--target=y"] if name == "w.csv" else []), "--preset=fast").code == 0
    assert Path("out", directory, "model.safetensors").exists()
    Path(name).unlink()  # a finished directory is named before anything is read
    assert f"out/{directory} holds a finished model" in run(capsys, "train", name).err


def test_an_output_directory_that_is_a_file(tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "a.csv", 60)
    code, _, err = run(capsys, "train", data, "--target=ring", f"--output_dir={data}")
    assert code == 1
    assert f"output_dir must be a directory, got the file {data}" in err


def test_folds_of_numbers_leave_out_every_row_once() -> None:
    source = ArraySource(np.arange(11.0)[:, None], np.zeros(11), shard_rows=4)
    parts = [validation for _, validation in folds(source, count=3, is_classification=False, seed=0)]
    assert sorted(num_rows(part) for part in parts) == [3, 4, 4]
    assert sorted(x for part in parts for block in in_order(part, 5) for x in block.X[:, 0].tolist()) == list(range(11))


def test_a_table_of_one_row_cannot_be_split(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\nu,1\nv,2\n")
    rows = open_rows(tmp_path / "t.csv", target="y")
    assert isinstance(rows, TableRows)
    with pytest.raises(ValueError, match="the data must have at least 2 rows to be split, got 1"):
        draw_validation(rows.take(np.array([1])), fraction=0.5, seed=0)
    split_rows = draw_validation(rows, fraction=0.0, seed=0)  # one row at least
    assert (len(split_rows.training), len(split_rows.validation)) == (1, 1)


def test_another_process_may_finish_first_or_be_killed_while_it_writes(tmp_path: Path) -> None:
    directory = TrainDirectory(tmp_path / "m")
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.part").write_text("half a model")
    with directory.run(plain_options({"data": Path("a.csv"), "device": torch.device("cpu")}), overwrite=False):
        assert json.loads(directory.config.read_text()) == {"data": "a.csv", "device": "cpu"}
        assert not (tmp_path / "m" / "model.part").exists()
        directory.model.write_text("")
    with (
        pytest.raises(ValueError, match=f"another process has finished a run in {tmp_path / 'm'} just now"),
        directory.run({"seed": 0}, overwrite=False),
    ):
        pass
