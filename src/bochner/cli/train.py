"""`bochner train`: fit an estimator on a file of rows, score it on validation rows, and save it."""

from __future__ import annotations

import inspect
import json
import logging
import math
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal

import torch
from sklearn.base import clone
from torch.distributed import is_torchelastic_launched

from bochner.cli.errors import TerminatedError
from bochner.cli.evaluate import Scorer, score_rows
from bochner.cli.info import architecture, card_page, model_card, settings_of
from bochner.cli.launch import LaunchOptions, launch
from bochner.cli.logs import labelled, logging_at
from bochner.cli.parser import options_of
from bochner.cli.tables import (
    Columns,
    Split,
    Task,
    TaskChoice,
    TextOptions,
    choose_task,
    column_list,
    draw_validation,
    folds,
    open_training_rows,
    open_validation,
)
from bochner.cli.train_directory import Options, TrainDirectory, checksum, plain_options
from bochner.data import Rows, TableRows, classes_of, statistics
from bochner.data.blocks import num_rows
from bochner.data.labels import abbreviated
from bochner.data.table_files import column_kind, table_files
from bochner.estimators import KernelClassifier, KernelRegressor, NetworkClassifier, NetworkRegressor
from bochner.kernels import Stationary
from bochner.remote import is_url, path_of, refuse_url
from bochner.search import KernelPlan, SolverParams, choose_solver
from bochner.search.fit import EXACT_ROWS, MAX_NORMAL_FEATURES
from bochner.search.searched import fixed_by, is_exact
from bochner.solvers.parallel import Workers, joined
from bochner.solvers.parallel.workers import num_restarts
from bochner.stages import write_json
from bochner.storage import save, write_atomically

logger = logging.getLogger(__name__)

# Standard deviations that differ by more suggest inputs in different units; a binary input of any frequency counts
# with that of a fair coin.
UNIT_RATIO, BINARY_STD = 100.0, 0.5

ESTIMATORS: dict[str, dict[str, Any]] = {
    "kernel": {"classify": KernelClassifier, "regress": KernelRegressor},
    "network": {"classify": NetworkClassifier, "regress": NetworkRegressor},
}
SOLVER_OPTIONS = [option.name for option in fields(SolverParams)]
# Arguments that are options of the command itself, or not options at all.
SKIPPED = ["solver_params", "checkpoint_dir", "random_state"]
# The use of validation rows, besides the scores at the end.
USED = "not trained on, but used for choices such as when to stop"
UNUSED = "not trained on, and not used for any choice"
TRAINED = "the training rows themselves: these scores are better than those of new rows"


@options_of(KernelClassifier, NetworkClassifier, SolverParams, skip=SKIPPED)
def train(
    data: str,
    *,
    model: Literal["kernel", "network"] = "kernel",
    target: str | None = None,
    task: Task = "auto",
    validation_data: str | None = None,
    output_dir: str | None = None,
    columns: Columns = None,
    ignore: Columns = None,
    categories: Columns = None,
    weight: str | None = None,
    sep: str | None = None,
    encoding: str | None = None,
    decimal: Literal[".", ","] | None = None,
    cv: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    random_state: int = 0,
    gpus: int | None = None,
    processes: int | None = None,
    nodes: int = 1,
    rendezvous: str | None = None,
    run_id: str | None = None,
    feature_parallel: int = 1,
    max_restarts: int = 0,
    oversubscribe: bool = False,
    **settings: Any,
) -> None:
    """Fit a kernel model or a network on a file of rows, which may be larger than memory.

    Examples:

        bochner train iris.csv --target species
        bochner train iris.csv --target -1 --ignore plant --cv 5
        bochner train houses.parquet --target price --preset best --time_limit 600
        bochner train houses.parquet --target price --preset none --standardize --solver landmarks
        bochner train mnist.npz --solver sgd --n_components 16384 --output_dir out/mnist
        bochner train mnist.npz --model network --hidden "[512, 512]" --output_dir out/mnist_network
        bochner train iris.csv --target species --print_config > iris.yaml
        bochner train --config iris.yaml
        bochner train frames.parquet --target state --solver sgd --gpus 8 --max_restarts 3

    A kernel model is searched (--preset fast, default or best; --time_limit): input transformation, kernel, bandwidth,
    metric and penalty are chosen by cross-validation or on held-out rows, except for those that are given as options,
    and the model is then fitted on all training rows by exact least squares. With --preset none, and for kernels
    outside the power-exponential family, nothing is searched.

    Ten percent of the rows (--validation_fraction), or the rows of --validation_data, are never trained on, and are
    used for the scores at the end. Rows of --validation_data are also used for choices; with the solvers of random
    features and landmarks, and for networks, so are rows that were drawn: the penalty, the learning rate, early
    stopping. Keep other rows for `bochner evaluate`.

    The arguments of `KernelClassifier` or `NetworkClassifier` and of `SolverParams` are options. Their defaults are
    those of kernel models; a network standardizes its inputs and is trained by 30 epochs of AdamW.

    With the solver "sgd", and for networks, an interrupted run resumes from its last checkpoint (one per epoch, and one
    per minute) when the same command is run again; so do --solver landmarks and newton, and what is searched or learned
    before a solver starts. Several processes (--gpus, --processes, or torchrun) share the rows
    of each batch, and with --feature_parallel the features, too; the model is the same as that of a single process.

    Args:
        data: Rows: .csv, .tsv (also .gz), .jsonl, .parquet, .arrow, .feather, .npz, .npy, .libsvm, or a directory of
            shards; also at a URL, such as s3://bucket/people.parquet. Tables may hold text, dates and missing values if
            they fit into memory.
        model: A kernel model, or a fully connected network.
        target: The target: a column of a table by name or position (-1 is the last), an array in an .npz (default y),
            or the path of an .npy file.
        task: "auto": text and at most 100 distinct integers are classes, other numbers are regressed.
        validation_data: Another file of rows to validate on, instead of a part of data.
        output_dir: Directory for model.safetensors, its card, config.json, history.jsonl and validation_scores.json.
            Default: out/NAME_csv for a file NAME.csv. At a URL, each file is uploaded when it is complete.
        columns: Names of the inputs, separated by commas. Default: all columns but target and weight. For an .npz the
            name of its array of inputs.
        ignore: Names of columns that are not inputs, separated by commas, such as identifiers of rows.
        categories: Names of columns whose numbers are codes rather than amounts, separated by commas.
        weight: A column of row weights.
        sep: Separator of a CSV file, a character or "tab". Default: detected.
        encoding: Encoding of a CSV file, such as "cp1252". Default: detected.
        decimal: Decimal sign of a CSV file. Default: detected.
        cv: Number of folds. The scores are those of cross-validation, for which as many more models are fitted, and the
            model is trained on all rows.
        overwrite: Start again in a directory that holds another run.
        quiet: Print only warnings and errors.
        random_state: Seed of all random numbers.
        gpus: Number of processes on this machine, one per GPU.
        processes: Number of processes on the CPU of this machine.
        nodes: Number of machines; the command is run on each, and output_dir must be shared between them.
        rendezvous: HOST:PORT of one of several machines.
        run_id: A random text, the same on each of several machines.
        feature_parallel: Number of processes that share the features; it must divide the number of processes.
        max_restarts: How often all processes are restarted from the last checkpoint when one has failed.
        oversubscribe: Allow more processes than cores.
    """
    if output_dir is None:
        name = data.rstrip("/").rpartition("/")[2] if is_url(data) else Path(data).resolve().name
        output_dir = str(Path("out", name.replace(".", "_")))
    launch_options = LaunchOptions(gpus, processes, nodes, rendezvous, run_id, max_restarts, oversubscribe)
    if launch_options.is_needed or is_torchelastic_launched():
        refuse_url("output_dir", output_dir, "with several processes")
    directory = TrainDirectory(output_dir)
    overwrite = overwrite and num_restarts() == 0  # after a restart, what is in the directory belongs to this run
    planned = build_estimator(model, "regress" if task == "regress" else "classify", random_state, settings)
    params = planned.make_plan().params  # invalid settings are errors before a large file is read
    table: dict[str, Any] = {"target": target, "columns": column_list(columns), "weight": weight}
    table |= {"ignore": column_list(ignore), "categories": column_list(categories)}
    text = TextOptions(sep, encoding, decimal)
    arguments = {"data": data, "model": model, **table, **text._asdict()}
    arguments |= {"validation_data": validation_data, "task": task, "cv": cv}
    if cv is not None and validation_data is not None:
        raise ValueError(f"cv must not be given with validation_data, got {cv} and {validation_data}.")
    options = plain_options({**arguments, **settings_of(planned)})
    if launch_options.is_needed and launch_options.uses_cpu:
        options["device"] = "cpu"
    if not overwrite and directory.is_finished(options):
        if not quiet:
            logger.info(labelled("model", f"{directory.location} holds the finished model of this command."))
        return
    if launch_options.is_needed:
        if getattr(planned, "solver", "auto") not in ("auto", "sgd"):
            raise ValueError(f"solver: {planned.solver!r} runs in one process; use --solver sgd.")
        options |= {"output_dir": str(directory.path), "overwrite": overwrite, "quiet": quiet}
        options |= {"verbose": planned.verbose, "feature_parallel": feature_parallel}
        launch("train", options, launch_options)
        return
    with ExitStack() as stack:
        group = stack.enter_context(joined(feature_parallel=feature_parallel, device=params.device))
        is_first = group is None or group.is_first  # this process logs and writes
        stack.enter_context(logging_at(logging.INFO if is_first and not quiet else logging.WARNING))
        rows = open_training_rows(data, memory_budget=params.memory_budget, text=text, **table)
        choice = choose_task(task, rows)
        estimator = build_estimator(model, choice.task, random_state, settings)
        if cv is not None:
            split = Split(rows, rows, f"{cv}-fold cross-validation of {num_rows(rows):,} rows, seed {random_state}")
        elif validation_data is None:
            split = draw_validation(rows, fraction=estimator.validation_fraction, seed=random_state)
        else:
            split = open_validation(rows, validation_data, target=target, weight=weight, text=text)
            split = split._replace(is_training=checksum(path_of(data)) == checksum(path_of(validation_data)))
            if split.is_training and is_first:
                logger.warning(f"validation_data: {validation_data} is the file of the training rows, {data}.")
        solver = solver_of(estimator, choice, split, group)
        with _run(directory, options, group, overwrite=overwrite):
            _log_data(data, rows, split, choice)
            _log_solver(solver, estimator)
            if is_first:
                _warn_of_units(split.training, estimator)
            if solver == "sgd" or (solver in ("landmarks", "newton") and estimator.solver == solver):
                checkpoints = {**(estimator.solver_params or {}), "checkpoint_dir": directory.checkpoint}
                estimator.set_params(solver_params=checkpoints)
            # A search divides the training rows itself; the scores of rows that no choice was based on are unbiased.
            decides = validation_data is not None or solver != "exact" or not estimator.make_plan().is_searched
            decides = decides and cv is None
            scorer = None
            if cv is not None:
                scorer = cross_validate(estimator, rows, cv, group, is_classification=choice.task == "classify")
            fit(estimator, split, directory, group, validation=split.validation if decides else None)
            if is_first:
                finish(estimator, split, directory, options, scorer=scorer, decides=decides)
        _log_next_commands(data, columns, directory.location)


def build_estimator(model: str, task: str, random_state: int, settings: Mapping[str, Any]) -> Any:
    """The estimator of a model and a task; `settings` are its arguments and those of `SolverParams`."""
    estimator_class = ESTIMATORS[model][task]
    if settings.get("preset") == "none":
        settings = {**settings, "preset": None}
    accepted = inspect.signature(estimator_class).parameters
    arguments = {name: value for name, value in settings.items() if name not in SOLVER_OPTIONS}
    for name in [name for name in arguments if name not in accepted]:
        if arguments.pop(name) is not None:
            purpose = "regression" if name == "class_weight" else f"--model {model}"
            raise ValueError(
                f"{name} must not be given for {purpose}: {estimator_class.__name__} has no such argument."
            )
    defaults = asdict(estimator_class().make_plan().params)
    solver_params = {name: settings[name] for name in settings if name in defaults and settings[name] != defaults[name]}
    return estimator_class(**arguments, solver_params=solver_params or None, random_state=random_state)


def solver_of(estimator: Any, choice: TaskChoice, split: Split, group: Workers | None) -> str:
    """The solver that a fit will use, or an error if it cannot be used for these rows or by several processes."""
    plan = estimator.make_plan()
    if not isinstance(plan, KernelPlan):
        return "sgd"
    if plan.is_searched and is_exact(plan, split.training, group):
        return "exact"
    num_classes = len(classes_of(split.training)) if choice.task == "classify" else None
    solver = choose_solver(plan, num_rows=num_rows(split.training), num_classes=num_classes)
    if group is not None and solver != "sgd":
        raise ValueError(f"solver: {solver!r} runs in one process, got {group.num_processes}; use --solver sgd.")
    return solver


@contextmanager
def _run(directory: TrainDirectory, options: Options, group: Workers | None, *, overwrite: bool) -> Iterator[None]:
    """The first process holds the directory; an interrupt or SIGTERM reports whether there is a checkpoint."""
    try:
        if group is not None and not group.is_first:
            group.wait()
            yield
            return
        with directory.run(options, overwrite=overwrite):
            if group is not None:
                group.wait()
            yield
    except (KeyboardInterrupt, TerminatedError) as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        outcome = "no checkpoint was written yet: the same command will start again"
        if directory.model.exists():
            outcome = "its model was finished before"
        elif directory.has_checkpoint():
            outcome = "its checkpoint is kept: run the same command again to resume"
        message = f"{'interrupted' if is_interrupt else 'terminated'}; {outcome} ({directory.location})."
        raise type(error)(message) from None


def fit(model: Any, split: Split, directory: TrainDirectory, group: Workers | None, *, validation: Rows | None) -> None:
    """Fit the model, or resume from its checkpoint, and log what it took; choices are based on `validation`."""
    epochs_done, start = directory.epochs_done(), time.perf_counter()
    rows = split.training
    if directory.has_checkpoint():
        logger.info(labelled("resume", f"from the checkpoint of an interrupted run, {epochs_done} epochs done"))
    fit_rows(model, rows, validation, group)
    seconds = max(time.perf_counter() - start, 1e-9)
    passes = max(1, len(model.history_) - epochs_done)
    rows_read = passes * num_rows(rows) // model.make_plan().params.num_blocks
    epochs = f"{len(model.history_)} epochs, " if model.history_ else ""
    _log_architecture(model)
    logger.info(labelled("fit", f"{epochs}{seconds:.1f} s, {rows_read / seconds:,.0f} rows/s{_peak_memory_text()}"))


def fit_rows(model: Any, rows: Rows, validation: Rows | None, group: Workers | None) -> None:
    if isinstance(rows, TableRows):
        chosen_by = (validation.X, validation.y) if isinstance(validation, TableRows) else None
        model.fit(rows.X, rows.y, rows.weight, validation_data=chosen_by, group=group)
    else:
        model.fit(rows, validation_data=validation, group=group)


def cross_validate(
    estimator: Any, rows: Rows, count: int, group: Workers | None, *, is_classification: bool
) -> Scorer | None:
    """Scores of all rows by models that were fitted without their fold."""
    scorer: Scorer | None = None
    seed = estimator.random_state
    for number, (training, validation) in enumerate(
        folds(rows, count=count, is_classification=is_classification, seed=seed)
    ):
        model, start = clone(estimator), time.perf_counter()
        params = {**(model.solver_params or {})}
        params.pop("checkpoint_dir", None)  # which is that of the model on all rows
        model.set_params(solver_params=params or None)
        fit_rows(model, training, None, group)
        scorer = score_rows(model, validation, scorer)
        logger.info(labelled("fold", f"{number + 1} of {count}, {time.perf_counter() - start:.1f} s"))
    return scorer


def finish(
    model: Any, split: Split, directory: TrainDirectory, options: Options, *, scorer: Scorer | None, decides: bool
) -> None:
    """Score the validation rows and write all files, the model last: a directory with a model is complete.

    `scorer` has the scores of cross-validation, if there was one; `decides` is whether choices were based on the
    validation rows.
    """
    scorer = scorer or score_rows(model, split.validation)
    scores, intervals = scorer.scores(), scorer.intervals()
    if model.history_:
        write_atomically(directory.history, "".join(json.dumps(record) + "\n" for record in model.history_).encode())
    stored = {"protocol": split.protocol, "num_rows": scorer.num_rows, **scores}
    write_json(directory.scores, {**stored, "intervals": {name: list(ends) for name, ends in intervals.items()}})
    use = TRAINED if split.is_training else USED if decides else UNUSED
    card = model_card(model, split, options, scorer, use=use)
    write_json(directory.card, card)
    write_atomically(directory.card_page, card_page(card).encode())
    save(model, directory.model)
    for label, (name, value) in zip(["scores"] + [""] * len(scores), scores.items(), strict=False):
        logger.info(labelled(label, score_text(name, value, intervals[name])))
    logger.info(labelled("", f"(validation: {split.protocol};"))
    logger.info(labelled("", f"{use}; 95 % intervals)"))


def score_text(name: str, value: float, interval: tuple[float, float]) -> str:
    """A score with its interval, to the digits that the interval leaves.

    >>> score_text("accuracy", 0.8571428, (0.60064, 0.95991))
    'accuracy 0.86 (0.60 to 0.96)'
    """
    low, high = interval
    half = (high - low) / 2
    digits = 4 if not half > 0 else min(max(1 - math.floor(math.log10(half)), 0), 6)
    return f"{name} {value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


# -- log lines -------------------------------------------------------------------------------------------------


def _log_data(data: str, rows: Rows, split: Split, choice: TaskChoice) -> None:
    logger.info(labelled("data", f"{data}: {num_rows(rows):,} rows, {rows.num_inputs:,} inputs"))
    logger.info(labelled("task", f"{choice.task} ({choice.reason})"))
    if choice.task == "classify":
        classes = classes_of(rows).tolist()
        logger.info(labelled("classes", f"{len(classes):,}: {abbreviated(classes)}"))
    logger.info(labelled("split", f"{num_rows(split.training):,} training rows; validation: {split.protocol}"))
    if isinstance(rows, TableRows):
        kinds = Counter(map(column_kind, rows.X.schema.types))
        logger.info(labelled("columns", ", ".join(f"{count} {kind}" for kind, count in kinds.items())))


def _log_solver(solver: str, model: Any) -> None:
    plan = model.make_plan()
    if not isinstance(plan, KernelPlan):
        logger.info(labelled("solver", f"{solver} (optimizer {plan.params.optimizer})"))
        return
    reasons = {
        "exact": f"preset {plan.preset!r}: a search, then least squares on all training rows",
        "newton": f"at most {EXACT_ROWS:,} rows: Newton steps with all rows as landmarks take seconds",
        "landmarks": "least squares with all rows as landmarks takes less time than with features",
        "ridge": f"regression with at most {MAX_NORMAL_FEATURES:,} features: one pass of normal equations",
        "sgd": f"{plan.needs_sgd} needs it" if plan.needs_sgd else "Newton steps with all rows would take longer",
    }
    reason = reasons[solver] if plan.solver == "auto" else "as requested"
    if plan.is_searched and solver != "exact":
        reason += f"; its kernel by a search, preset {plan.preset!r}"
    logger.info(labelled("solver", f"{solver} ({reason})"))


def _warn_of_units(rows: Rows, model: Any) -> None:
    """Distances are dominated by the inputs of largest spread. One pass over the rows."""
    plan = model.make_plan()
    is_transformed = isinstance(plan, KernelPlan) and plan.is_searched and fixed_by(plan, 1).transform != "none"
    if plan.standardize or is_transformed or isinstance(rows, TableRows):
        return
    _, mean, std, _ = statistics(rows)
    is_binary = (mean > 0) & (mean < 1) & torch.isclose(std.square(), mean * (1 - mean), rtol=1e-6, atol=0)
    std = torch.where(is_binary, BINARY_STD, std)[std > 0]
    if len(std) and std.max() > UNIT_RATIO * std.min():
        logger.warning(
            f"standard deviations of inputs range from {std.min():.3g} to {std.max():.3g}; use --standardize "
            "if the inputs have different units."
        )


def _log_architecture(model: Any) -> None:
    kernel = getattr(model, "kernel_", None)
    if not isinstance(kernel, Stationary) or model.search_results_:
        for label, text in architecture(model).items():
            logger.info(labelled(label, text))
        return
    rule = model.bandwidth or model.gamma or ("median" if isinstance(model.kernel, str) else None)
    source = ", as given"
    if isinstance(rule, str):
        source = ", chosen on validation rows" if rule == "search" else f" by the {rule} rule"
    standardized = " on standardized inputs" if model.standardize else ""
    logger.info(labelled("kernel", f"{type(kernel).__name__}{standardized}, bandwidth {kernel.bandwidth:.4g}{source}"))


def _peak_memory_text() -> str:
    """Peak memory of this process, where the system reports it."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return f", peak memory {peak * (1 if sys.platform == 'darwin' else 1024) / 2**20:,.0f} MiB"


def _log_next_commands(data: str, columns: Columns, directory: str) -> None:
    """Commands to copy; a model knows the columns of its table, but not the name of its array in an .npz."""
    has_names = columns is None or bool(table_files(path_of(data)))
    inputs = [] if has_names else ["--columns", ",".join(column_list(columns) or [])]
    predict = ["bochner", "predict", directory, data, *inputs, "--output", "predictions.csv"]
    logger.info(labelled("model", directory))
    logger.info(labelled("next", shlex.join(predict)))
    logger.info(labelled("", shlex.join(["bochner", "evaluate", directory, "TEST_DATA", *inputs])))
