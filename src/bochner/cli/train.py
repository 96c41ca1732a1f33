"""`bochner train`: from a file of rows to a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bochner.cli.folder import RunFolder, as_options
from bochner.cli.launch import Crew, launch, spoken_once
from bochner.cli.parts import Parts, hold_out, set_aside
from bochner.cli.report import say_data, say_fit, say_heldout, say_next, say_solver, warn_of_units
from bochner.cli.rows import Columns, listed, open_rows
from bochner.cli.run import choose, finish, fit
from bochner.cli.task import Task, choose_task
from bochner.estimators import KernelClassifier, KernelRegressor
from bochner.solvers.parallel import Team, joined
from bochner.solvers.parallel.mesh import num_restarts


def train(
    data: Path,
    *,
    target: str | None = None,
    task: Task = "auto",
    heldout: Path | None = None,
    output_dir: Path | None = None,
    columns: Columns = None,
    weight: str | None = None,
    overwrite: bool = False,
    random_state: int = 0,
    gpus: int | None = None,
    processes: int | None = None,
    nodes: int = 1,
    rendezvous: str | None = None,
    feature_parallel: int = 1,
    max_restarts: int = 0,
    **settings: Any,
) -> None:
    """Fit a kernel classifier or regressor on a file of rows that may be larger than memory.

    Examples:

        bochner train iris.csv --target species
        bochner train houses.parquet --target price --standardize --solver landmarks
        bochner train mnist.npz --num_features 16384 --heldout_fraction 0.05 --output_dir out/mnist
        bochner train iris.csv --target species --print_config > iris.yaml
        bochner train --config iris.yaml
        bochner train frames.parquet --target state --solver sgd --gpus 8 --max_restarts 3

    Ten percent of the rows (--heldout_fraction), or the rows of --heldout, are never trained on: they choose the
    learning rate, the ridge and when to stop, and the metrics at the end are theirs. Rows that nothing was chosen on
    are for `bochner evaluate`.

    When the solver is "sgd", a run that was stopped goes on from its last checkpoint (one an epoch, and one a minute)
    when the same command is given again. Several processes (--gpus, --processes, or torchrun) share the rows of each
    batch, and with --feature_parallel the features too; the model is the one that a single process makes.

    Args:
        data: Rows: .csv (.csv.gz), .parquet, .arrow, .feather, .npz, .npy, .libsvm, or a folder of shards.
        target: What to predict: a column of a table, an array in an .npz (default y), or the path of an .npy file.
        task: "auto": text is classes, integers are with at most 100 different values, other numbers are not.
        heldout: Another file of such rows, to choose by and to report on instead of a part of data.
        output_dir: Folder for model.safetensors, its card, config.json, history.jsonl and heldout_metrics.json.
            Default: out/NAME for a file NAME.csv.
        columns: Inputs, with commas between them. Default: all columns but target and weight. For an .npz the name of
            its array of inputs.
        weight: A column of row weights.
        overwrite: Begin anew in a folder that holds another run.
        random_state: Seed of everything random.
        gpus: Processes on this machine, each with a GPU of its own.
        processes: Processes on this machine, on its CPU.
        nodes: Machines; the same command is given on each, and output_dir is a folder that all of them see.
        rendezvous: HOST:PORT of one of several machines.
        feature_parallel: Processes among which the features are divided; it divides their number.
        max_restarts: How often all processes are started anew, from the last checkpoint, when one has failed.
    """
    folder = RunFolder(Path("out", data.resolve().name.partition(".")[0]) if output_dir is None else output_dir)
    overwrite = overwrite and num_restarts() == 0  # what a restart finds there is the run's own
    if not overwrite and num_restarts() == 0:
        folder.refuse_finished()
    planner = KernelClassifier(folder=None, random_state=random_state, **settings)
    planner._validate_params()  # a wrong word should not wait until a large file is read
    named: dict[str, Any] = {"target": target, "weight": weight}
    asked = {"heldout": heldout, "columns": listed(columns), "task": task, "random_state": random_state}
    options = as_options({"data": data, **named, **asked, **settings})
    crew = Crew(gpus, processes, nodes, rendezvous, max_restarts)
    if crew.is_to_be_started:
        more = {"output_dir": str(folder.path), "overwrite": overwrite, "verbose": planner.verbose}
        launch("train", {**options, **more, **crew.device(), "feature_parallel": feature_parallel}, crew)
        return
    with joined(feature_parallel=feature_parallel, device=planner.device) as team, spoken_once(team):
        rows = open_rows(data, columns=columns, memory_budget=planner.memory_budget, **named)
        choice = choose_task(task, rows)
        model = build(choice.task, folder=None, random_state=random_state, **settings)
        parts = set_aside(rows, model) if heldout is None else hold_out(rows, heldout, **named)
        solver = choose_for(team, model, parts)
        if team.is_first:
            folder.begin(options, overwrite=overwrite)
        team.wait()
        say_data(data, rows, parts, choice)
        say_solver(solver, model)
        if team.is_first:
            warn_of_units(parts.learned, model)
        with interruptible(folder):
            say_fit(model, fit(model.set_params(folder=folder.checkpoint if solver == "sgd" else None), parts, folder))
            if team.is_first:
                say_heldout(finish(model, parts, folder, options), parts)
        say_next(data, target, columns, folder.path)


def choose_for(team: Team, model: Any, parts: Parts) -> str:
    """The solver that a fit will use; only "sgd" has work for several processes."""
    solver = choose(model, parts)
    if team.num_processes > 1 and solver != "sgd":
        raise ValueError(f"solver: {solver!r} works in one process, got {team.num_processes}; give --solver sgd.")
    return solver


def build(task: str, **settings: Any) -> KernelClassifier | KernelRegressor:
    """The estimator of a task."""
    if task == "classify":
        return KernelClassifier(**settings)
    if settings.pop("class_weight", None) is not None:
        raise ValueError("class_weight must not be given for regression, which has no classes.")
    return KernelRegressor(**settings)


@contextmanager
def interruptible(folder: RunFolder) -> Iterator[None]:
    """A keyboard interrupt says what it left."""
    try:
        yield
    except KeyboardInterrupt:
        kept = (
            "its checkpoint is kept: the same command goes on from there"
            if folder.has_checkpoint()
            else ("there was no checkpoint yet: the same command begins anew")
        )
        raise KeyboardInterrupt(f"stopped; {kept} ({folder.path}).") from None
