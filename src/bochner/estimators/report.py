"""A page about a fitted model: its data, scores on rows it was not fitted on, figures, and what the search tried."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner import checks
from bochner.estimators import figures
from bochner.estimators.evaluation import (
    Array,
    Evaluation,
    Interval,
    calibration_bins,
    calibration_error,
    confusion,
)
from bochner.estimators.summary import baseline, cautions, column_names, headline, most_important
from bochner.models.heads import LogitAverage
from bochner.models.landmarks import LandmarkModel
from bochner.report import Cell, Mark, Page, format_number

MAX_IMPORTANCES = 20
MAX_COLUMNS = 60  # listed with their types
MAX_PARTS = 6  # of several targets or labels that get scores and figures
MAX_CONFUSIONS = 10
MAX_TRIALS = 12  # of the search: seven lines each on a phone
COVERAGES = (0.5, 0.8, 0.9, 0.95)
KERNEL_NAMES = {(2.0, 2.0): "Gaussian", (1.0, 1.0): "Laplacian", (1.0, 2.0): "exponential"}


def write_report(
    estimator: Any,
    path: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    target: str | None = None,
    details: Mapping[str, str] | None = None,
    beware: Sequence[str] = (),
) -> None:
    """Write an HTML page about a fitted classifier or regressor to `path`, in one file.

    It begins with a few sentences: how good the model is, compared with the best constant, and which columns matter
    most. Then come calibration and confusion or residuals, scores with 95 % bootstrap intervals on held-out rows, what
    to beware of, the importances of the input columns and the trials of the search. X and y are test data: rows that
    were not used for fitting, for which the same scores are shown. `target` names what is predicted, `details` are
    further properties of the model and its data, and `beware` further sentences. Needs `pip install 'bochner[plot]'`.
    All text is escaped, and the page loads nothing from elsewhere.

    >>> import bochner
    >>> model = bochner.KernelClassifier().fit(X, y)  # doctest: +SKIP
    >>> write_report(model, "page.html")  # doctest: +SKIP
    """
    checks.imported("matplotlib", extra="plot")
    check_is_fitted(estimator)
    if (X is None) != (y is None):
        raise ValueError(f"X and y must be given together, got only {'y' if X is None else 'X'}.")
    test = [] if X is None else _test_parts(estimator, X, y)
    with figures.quiet_fonts():
        _page(estimator, test, X, y, target, details or {}, beware).write(Path(path))


def _page(
    estimator: Any,
    test: Sequence[Part],
    X: Any,
    y: Any,
    target: str | None,
    details: Mapping[str, str],
    beware: Sequence[str],
) -> Page:
    page = Page(f"{type(estimator).__name__}: report" if target is None else f"Prediction of {target}: report")
    held_out = _held_out(estimator)
    _add_short(page, estimator, held_out, test, target)
    if test:
        page.heading("Test data").note(
            "The rows that were passed to the report. Their scores are unbiased if the model was not fitted on them."
        )
        _add_parts(page, test, "test")
        if hasattr(estimator, "predict_interval"):
            _add_coverage(page, estimator, X, y)
    if held_out:
        page.heading("Held-out rows")
        page.note(
            "Predictions for training rows by models that were fitted without them (leave-one-out or "
            "cross-validation). What was chosen by such rows scores slightly better on them than on new ones."
        )
        _add_parts(page, held_out, "held-out")
    if not held_out and not test:
        page.heading("Scores").text("This model keeps no held-out predictions: give the report test data, X and y.")
    _add_cautions(page, estimator, held_out, test, X, beware)
    _add_importances(page, estimator)
    _add_summary(page, estimator, held_out, details)
    _add_search(page, estimator)
    return page


# -- the model and its data --------------------------------------------------------------------------------------------


def _add_short(page: Page, estimator: Any, held_out: Sequence[Part], test: Sequence[Part], target: str | None) -> None:
    """The answer, before the contents: how good the model is, what it predicts from what, and what matters most."""
    for part in (test or held_out)[:MAX_PARTS]:
        title = f"{part.title}: " if part.title else ""
        page.text(title + headline(part.evaluation, part.classes, "test" if test else "held-out"))
    count, columns = training_rows(estimator), estimator.n_features_in_
    what = "one target" if target is None else target
    rows = "" if count is None else f" It was trained on {count:,} rows."
    page.text(f"The model predicts {what} from {columns:,} column{'' if columns == 1 else 's'}.{rows}")
    if (sentence := most_important(estimator)) is not None:
        page.text(sentence)


def _add_cautions(
    page: Page, estimator: Any, held_out: Sequence[Part], test: Sequence[Part], X: Any, beware: Sequence[str]
) -> None:
    page.heading("What to beware of")
    first = held_out[0] if len(held_out) == 1 else None
    scored = test[0] if len(test) == 1 else None
    known = scored or first
    sentences = cautions(
        estimator,
        held_out=first and first.evaluation,
        test=scored and scored.evaluation,
        classes=known and known.classes,
        X=X,
    )
    page.items([*beware, *sentences])


def _add_summary(page: Page, estimator: Any, held_out: Sequence[Part], details: Mapping[str, str]) -> None:
    page.heading("Model")
    has_summary = hasattr(estimator, "summary")
    if has_summary:
        page.items(str(estimator.summary()).splitlines())
    facts = {"task": _task(estimator, held_out), **details}
    if (count := training_rows(estimator)) is not None:
        facts["training rows"] = f"{count:,}"
    facts["input columns"] = f"{estimator.n_features_in_:,}"
    if held_out:
        facts["held-out rows"] = f"{len(held_out[0].evaluation.targets):,}"
    if not has_summary:
        facts |= {"solver": str(getattr(estimator, "solver_", "-")), "kernel": repr(getattr(estimator, "kernel_", "-"))}
    page.facts(facts.items())
    if len(held_out) == 1 and held_out[0].classes is not None:
        names, evaluation = held_out[0].classes, held_out[0].evaluation
        shares = np.bincount(evaluation.targets, weights=evaluation.weight, minlength=len(names))
        shown = sorted(range(len(names)), key=lambda c: -shares[c])[:MAX_COLUMNS]
        page.subheading("Classes")
        page.table(
            ["class", "share of held-out rows"],
            [[names[c], f"{100 * shares[c] / shares.sum():.3g} %"] for c in shown],
        )
    encoder = getattr(estimator, "encoder_", None)
    if encoder is not None:
        page.subheading("Columns")
        columns = encoder.columns[:MAX_COLUMNS]
        page.table(["column", "type", "inputs"], [[str(c.name), c.kind, len(c.outputs)] for c in columns])
        if len(encoder.columns) > MAX_COLUMNS:
            page.note(f"The first {MAX_COLUMNS} of {len(encoder.columns)} columns.")


def _task(estimator: Any, held_out: Sequence[Part]) -> str:
    if getattr(estimator, "multilabel_", False):
        return f"multi-label classification, {len(estimator.classes_)} labels"
    if hasattr(estimator, "classes_"):
        return f"classification, {len(estimator.classes_)} classes"
    return "regression" if len(held_out) < 2 else f"regression, {len(held_out)} targets"


def training_rows(estimator: Any) -> int | None:
    """All rows of an exact fit are landmarks of a part of the model; other models do not keep the number."""
    if estimator.solver_ != "exact":
        return None
    model = estimator.model_
    first = model.models[0] if isinstance(model, LogitAverage) else model
    return sum(len(part.landmarks) for part in first.modules() if isinstance(part, LandmarkModel))


# -- scores ------------------------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """Predictions of one target, label or set of classes; `classes` are their names, None for numbers."""

    title: str
    evaluation: Evaluation
    classes: list[str] | None


def _held_out(estimator: Any) -> list[Part]:
    stored = getattr(estimator, "validation_", None)
    if not stored or stored.get("predictions") is None or not len(stored["predictions"]):
        return []
    targets, predictions = _numbers(stored["targets"]), _numbers(stored["predictions"])
    return _parts(estimator, targets, predictions, stored.get("weight"))


def _test_parts(estimator: Any, X: Any, y: Any) -> list[Part]:
    labels = _numbers(y)
    if not hasattr(estimator, "classes_"):
        return _parts(estimator, labels.astype(np.float64), _numbers(estimator.predict(X)))
    p = _numbers(estimator.predict_proba(X))
    if getattr(estimator, "multilabel_", False):
        return _parts(estimator, labels, p)
    index = {label: place for place, label in enumerate(estimator.classes_.tolist())}
    unknown = [label for label in labels.tolist() if label not in index]
    if unknown:
        raise ValueError(f"y must hold the classes {list(index)} only, got {unknown[0]!r}.")
    return _parts(estimator, np.array([index[label] for label in labels.tolist()], dtype=np.int64), p)


def _parts(estimator: Any, targets: Array, predictions: Array, weight: Any = None) -> list[Part]:
    if getattr(estimator, "multilabel_", False):
        columns = zip(targets.T, predictions.T, strict=True)
        return [
            Part(f"Label {place}", Evaluation.of((y > 0.5).astype(int), np.stack([1 - p, p], 1), weight), ["no", "yes"])
            for place, (y, p) in enumerate(columns)
        ]
    if hasattr(estimator, "classes_"):
        return [Part("", Evaluation.of(targets, predictions, weight), [str(label) for label in estimator.classes_])]
    y, f = (values.reshape(len(values), -1) for values in (targets, predictions))
    if y.shape[1] == 1:
        return [Part("", Evaluation.of(y, f, weight), None)]
    columns = zip(y.T, f.T, strict=True)
    return [Part(f"Target {place}", Evaluation.of(*pair, weight), None) for place, pair in enumerate(columns)]


def _numbers(values: Any) -> Array:
    return values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)


def _add_parts(page: Page, parts: Sequence[Part], kind: str) -> None:
    for part in parts[:MAX_PARTS]:
        if part.title:
            page.subheading(part.title)
        if part.classes is None:
            _add_numbers(page, part.evaluation, kind)
        else:
            _add_classes(page, part.classes, part.evaluation, kind)
        _add_scores(page, part.evaluation)
        if part.classes is not None:
            _add_errors(page, part.classes, part.evaluation, kind)
    if len(parts) > MAX_PARTS:
        page.note(f"The first {MAX_PARTS} of {len(parts)} targets or labels.")


def _add_scores(page: Page, evaluation: Evaluation) -> None:
    scores, constant = evaluation.scores(), baseline(evaluation).scores()
    page.table(
        ["score", "value", "best constant"],
        [[name, with_interval(score), format_number(constant[name].value, 4)] for name, score in scores.items()],
    )
    page.note("± is half the length of the 95 % bootstrap interval.")


def with_interval(score: Interval) -> str:
    """A score ± half the length of its interval, to the second digit of the latter.

    >>> with_interval(Interval(0.48941, 0.40052, 0.56563)), with_interval(Interval(55.461, 51.2, 59.3))
    ('0.489 ± 0.083', '55.5 ± 4.0')
    """
    half = (score.high - score.low) / 2
    if not np.isfinite(half) or half <= 0:
        return format_number(score.value, 4)
    digits = max(0, 1 - int(np.floor(np.log10(half))))
    return f"{score.value:,.{digits}f} ± {half:,.{digits}f}"


def _add_classes(page: Page, names: Sequence[str], evaluation: Evaluation, kind: str) -> None:
    bins = calibration_bins(evaluation)
    axis = f"predicted probability of {figures.shortened(names[1])}" if len(names) == 2 else "largest probability"
    panels = [
        (
            figures.calibration_figure(bins, axis=axis.replace("$", r"\$")),
            f"Calibration on {kind} rows: the observed share of rows against the predicted probability, in "
            f"{len(bins)} groups of equally many rows, with 95 % intervals. The mean gap is "
            f"{calibration_error(bins):.3f}.",
        )
    ]
    counts = confusion(evaluation)
    if len(names) <= figures.MAX_CELLS:
        caption = f"Confusion on {kind} rows: per cent of the rows of each true class by predicted class."
        panels.append((figures.confusion_figure(counts, names), caption))
    page.figures(panels)


def _add_errors(page: Page, names: Sequence[str], evaluation: Evaluation, kind: str) -> None:
    """The most frequent pairs of true and predicted class."""
    counts = confusion(evaluation)
    off = counts - np.diag(np.diag(counts))
    places = [divmod(int(cell), len(names)) for cell in np.argsort(-off, axis=None)[:MAX_CONFUSIONS]]
    rows: list[list[Cell]] = [
        [names[i], names[j], float(off[i, j]), f"{100 * off[i, j] / counts[i].sum():.3g} %"]
        for i, j in places
        if off[i, j] > 0
    ]
    if rows:
        page.note(f"The most frequent errors on {kind} rows:")
        page.table(["true", "predicted", "rows", "share of the true class"], rows)


def _add_numbers(page: Page, evaluation: Evaluation, kind: str) -> None:
    y, f = evaluation.targets[:, 0], evaluation.predictions[:, 0]
    page.figures(
        [
            (figures.predicted_figure(y, f), f"True values of {kind} rows against their predictions."),
            (figures.residual_figure(y - f, evaluation.weight), f"Errors on {kind} rows: true minus predicted."),
        ]
    )


def _add_coverage(page: Page, estimator: Any, X: Any, y: Any) -> None:
    """Shares of test targets within prediction intervals, where the model has enough rows for them."""
    targets = np.asarray(y, dtype=np.float64)
    rows: list[list[Cell]] = []
    for coverage in COVERAGES:
        try:
            lower, upper = (_numbers(end) for end in estimator.predict_interval(X, coverage=coverage))
        except ValueError:  # too few rows for this coverage, or none at all
            continue
        inside = (lower <= targets) & (targets <= upper)
        rows.append([f"{100 * coverage:g} %", f"{100 * inside.mean():.3g} %", float(np.mean(upper - lower))])
    if rows:
        page.subheading("Prediction intervals on test rows")
        page.table(["coverage asked for", "targets inside", "mean length"], rows)


# -- importances and search --------------------------------------------------------------------------------------------


def _add_importances(page: Page, estimator: Any) -> None:
    values = getattr(estimator, "feature_importances_", None)
    if values is None:
        return
    values = _numbers(values)
    labels = column_names(estimator)
    top = np.argsort(-values, kind="stable")[:MAX_IMPORTANCES]
    page.heading("Importances of the input columns")
    page.figure(
        figures.importance_figure(values[top], [labels[i] for i in top]),
        f"How strongly the predictions depend on each column{'' if len(top) == len(values) else ', the first 20'}: "
        + ", ".join(f"{figures.shortened(labels[i])} {values[i]:.2g}" for i in top[:3])
        + (", ..." if len(top) > 3 else "."),
    )


def _add_search(page: Page, estimator: Any) -> None:
    trials: list[dict[str, Any]] = list(getattr(estimator, "search_results_", None) or [])
    if not trials:
        return
    losses = np.array([trial["loss"] for trial in trials], float)
    page.heading("Search")
    page.figure(
        figures.search_figure(losses, [_stage(trial) for trial in trials]),
        f"Validation loss of {len(trials)} trials in the order in which they were made: many on few rows, the best of "
        "them again on more. Trials with much higher losses are outside the figure.",
    )
    page.text(
        "The best trial of each kernel exp(-(distance / bandwidth)^p), with the distance in the q-norm, and "
        "transformation, on the largest numbers of rows that it was tried on. Losses "
        "are comparable for equal numbers of training and validation rows. The simplest trial within a standard error "
        "of the best is chosen."
    )
    chosen = getattr(estimator, "choices_", {})
    keys = ("transform", "exponent", "norm", "metric", "power", "factor", "penalty", "rows", "validated", "loss")
    table: list[list[Cell]] = []
    kinds = best_by_kind(trials)
    for place, trial in enumerate(kinds):
        is_chosen = all(key in chosen and chosen[key] == trial[key] for key in keys)
        if place >= MAX_TRIALS and not is_chosen:
            continue
        stage = _stage(trial)
        loss = f"{format_number(trial['loss'], 4)} ± {format_number(trial['error'], 2)}"
        table.append(
            [
                trial["transform"],
                kernel_name(trial["exponent"], trial["norm"]),
                metric_name(trial),
                format_number(trial["factor"]),
                format_number(trial["penalty"]),
                f"{stage[0]:,} + {stage[1]:,}",
                Mark(f"{loss} (chosen)", "good") if is_chosen else loss,
            ]
        )
    columns = [
        "transformation",
        "kernel",
        "learned metric",
        "bandwidth / median",
        "ridge penalty",
        "training + validation rows",
        "loss ± standard error",
    ]
    page.table(columns, table, cards=True)
    if len(table) < len(kinds):
        page.note(f"{len(table)} of {len(kinds)} kinds of trials; search_results_ of the model has all of them.")


def best_by_kind(trials: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each transformation, kernel and metric, the best trial on most rows; those on most rows, and best, first."""
    ranked = sorted(trials, key=lambda trial: (*(-count for count in _stage(trial)), trial["loss"]))
    kinds: dict[tuple[Any, ...], dict[str, Any]] = {}
    for trial in ranked:
        kinds.setdefault(tuple(trial[key] for key in ("transform", "exponent", "norm", "metric", "power")), trial)
    return list(kinds.values())


def _stage(trial: dict[str, Any]) -> tuple[int, int]:
    """Training and validation rows of a trial; only trials of the same stage have comparable losses."""
    return trial["rows"], trial["validated"]


def kernel_name(exponent: float, norm: float) -> str:
    """The name of the kernel exp(-(distance / s)^p) in the q-norm, if it has one.

    >>> kernel_name(2.0, 2.0), kernel_name(1.5, 1.5)
    ('Gaussian (p=2, q=2)', 'p=1.5, q=1.5')
    """
    powers = f"p={exponent:g}, q={norm:g}"
    name = KERNEL_NAMES.get((exponent, norm))
    return powers if name is None else f"{name} ({powers})"


def metric_name(trial: dict[str, Any]) -> str:
    """The learned metric of a trial: its form, power and rounds."""
    if trial["metric"] == "none":
        return "none"
    rounds = trial["rounds"]
    return f"{trial['metric']}, power {trial['power']:g}, {rounds} round{'' if rounds == 1 else 's'}"
