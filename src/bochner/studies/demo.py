"""`bochner demo`: tables, speech and low-rank factors, each compared with other methods, on one page."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from bochner.acoustic import experiment
from bochner.acoustic.recipe import load_recipe
from bochner.acoustic.report import COLORS, MARKERS
from bochner.acoustic.report import write_report as write_speech_report
from bochner.acoustic.results import Results, Table
from bochner.estimators import KernelClassifier, KernelRegressor
from bochner.kernels import Gaussian
from bochner.lowrank import fit_factor, frobenius_error
from bochner.report import Page
from bochner.stages import Stage, locked

logger = logging.getLogger(__name__)
RECIPE, REPORT, SPEECH = "timit-demo", "report.html", "speech"
SPLITS = (0, 1, 2)
KERNEL = "kernel model"
RANKS = (10, 30, 100)
METHODS = {
    "fourier": "random Fourier features",
    "uniform-nystrom": "as many random landmarks as the rank",
    "kmeans-nystrom": "as many cluster centres as the rank",
    "meka": "low rank within clusters, with links between them",
    "nystrom": "the best factor from eight times as many landmarks",
    "als": "least squares on a sample of the entries",
    "svd": "the optimum, which needs the whole matrix",
}
MACHINES = (
    "Repeated runs on one machine print the same numbers. Other CPUs round differently, so a search or a network may "
    "differ where two choices are nearly equal."
)
SIZE = (5.0, 3.0)  # inches: readable on a phone


@dataclass(frozen=True)
class Part:
    """One part of the demonstration: its result in one sentence, the winner, a table, the protocol, and a figure."""

    title: str
    answer: str
    winner: str
    table: Table
    protocol: str
    figure: Callable[[], Any]
    caption: str


def run_demo(
    output_dir: str | os.PathLike[str],
    *,
    workers: int = 1,
    verbose: bool = False,
    announce: Callable[[str], None] = logger.info,
    show: Callable[[Part], None],
) -> Path:
    """Run the three parts below `output_dir`, or continue there, and write report.html, whose path is returned.

    `announce` is called with a line of text before each part, and `show` with the part when it has finished.
    """
    root, parts = Path(output_dir), []
    steps: dict[str, Callable[[], Part]] = {
        "Fitting four methods to three tables ...": lambda: tables(root),
        "Approximating a kernel matrix ...": lambda: lowrank_factors(root),
        "Synthesising speech, training and decoding three models, the longest part ...": lambda: speech(
            root / SPEECH, workers=workers, verbose=verbose
        ),
    }
    with locked(root), one_thread():
        for text, measure in steps.items():
            announce(text)
            parts.append(measure())
            show(parts[-1])
        return write_page(parts, root)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute in one thread: the problems are small, and threads that wait for a busy core take many times as long.

    It also makes results independent of the number of cores.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(root: Path) -> Part:
    """The automatic model and tree ensembles, all with default settings, on the real tables of scikit-learn."""
    models = [KERNEL, *_peers(classes=True)]
    inputs = {"models": models, "splits": list(SPLITS), "rows": _num_rows()}
    measured = Stage(root / "tables.json", inputs).run(lambda: {name: _errors(name) for name in _table_sets()})
    errors = {name: measured[name] for name in _table_sets()}
    best = [name for name, values in errors.items() if min(values, key=lambda m: fmean(values[m])) == KERNEL]
    answer = (
        f"With default settings, the kernel model has the lowest test error on {len(best)} of {len(errors)} tables"
        f"{': ' + ', '.join(best) if best else ''}."
    )
    table = [["test error in %", *errors]]
    table += [[model, *(_mean(values[model]) for values in errors.values())] for model in models]
    protocol = (
        "The error is 100 - accuracy for digits and breast cancer and 100 (1 - R2) for diabetes: mean ± standard "
        f"deviation over {len(SPLITS)} random splits with a third of the rows for testing. All methods have their "
        "default settings; those of scikit-learn are HistGradientBoosting and RandomForest, as are the tables."
    )
    winner = f"the kernel model on {len(best)} of {len(errors)} tables"
    caption = "Test errors, lower is better: means and standard deviations."
    return Part("Tables", answer, winner, table, protocol, lambda: _error_bars(errors), caption)


def _table_sets() -> dict[str, Callable[[], tuple[Any, Any]]]:
    """Functions that return rows and targets, by name."""
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

    loads = {"digits": load_digits, "breast cancer": load_breast_cancer, "diabetes": load_diabetes}
    return {name: partial(load, return_X_y=True) for name, load in loads.items()}


def _num_rows() -> dict[str, int]:
    return {name: len(load()[0]) for name, load in _table_sets().items()}


def _peers(*, classes: bool) -> dict[str, Any]:
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )

    boosted = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    forest = RandomForestClassifier if classes else RandomForestRegressor
    peers = {"scikit-learn boosting": boosted(random_state=0), "scikit-learn forest": forest(random_state=0)}
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMClassifier, LGBMRegressor

        peers = {
            "LightGBM": (LGBMClassifier if classes else LGBMRegressor)(random_state=0, n_jobs=1, verbose=-1),
            **peers,
        }
    return peers


def _errors(name: str) -> dict[str, list[float]]:
    """The test error of every model on every split, in %."""
    from sklearn.model_selection import train_test_split

    X, y = _table_sets()[name]()
    classes = name != "diabetes"
    kernel_model: Any = (KernelClassifier if classes else KernelRegressor)(random_state=0)
    errors: dict[str, list[float]] = {}
    for seed in SPLITS:
        train, test, y_train, y_test = train_test_split(
            X, y, test_size=1 / 3, random_state=seed, stratify=y if classes else None
        )
        for model, estimator in {KERNEL: kernel_model, **_peers(classes=classes)}.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # LightGBM on names of columns
                score = estimator.fit(train, y_train).score(test, y_test)
            errors.setdefault(model, []).append(100 * (1 - score))
    return errors


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.1f} ± {stdev(values):.1f}"


def _error_bars(errors: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    for axes, (name, values) in zip(figure.subplots(1, len(errors)), errors.items(), strict=True):
        bars = [
            axes.bar(place, fmean(v), yerr=stdev(v), color=color, label=model)
            for place, ((model, v), color) in enumerate(zip(values.items(), COLORS, strict=False))
        ]
        axes.set_xticks([])
        axes.set_title(name, fontsize="medium")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(handles=bars, loc="outside lower center", ncols=2, fontsize="small", frameon=False)
    figure.axes[0].set_ylabel("test error in %")
    return figure


# -- speech ------------------------------------------------------------------------------------------------------------


def speech(directory: Path, *, workers: int, verbose: bool) -> Part:
    """Kernel model, network and GMM on synthetic speech: `bochner asr run timit-demo`."""
    results = experiment.run_recipe(load_recipe(RECIPE), directory, workers=workers, verbose=verbose)
    write_speech_report(directory)
    rates = _phone_error_rates(results)
    best = min(rates, key=lambda name: rates[name][0])
    rest = "; ".join(f"{name}: {error:.1f} %" for name, (error, _, _) in rates.items() if name != best)
    clear = all(rates[best][2] < low for name, (_, low, _) in rates.items() if name != best)
    answer = f"The {best} has the lowest phone error rate, {rates[best][0]:.1f} % ({rest})" + (
        "." if clear else "; the 95 % intervals overlap, so the ranking is not significant."
    )
    table = [["model", "phone error rate in %"]]
    table += [[name, f"{error:.1f} ± {(high - low) / 2:.1f}"] for name, (error, low, high) in rates.items()]
    tokens = next(row.test["tokens"] for row in results.rows if row.test)
    protocol = (
        f"Phones that are wrong, missing or inserted per phone of the transcripts, ± half of the 95 % interval; "
        f"{tokens:,.0f} phones for testing. The network has four residual layers with batch normalisation. "
        f"Corpus: {results.corpus}, aligned to {results.num_states} states; the speech is synthetic, so these rates do "
        "not apply to recordings of people."
    )
    winner = f"the {best} on speech" + ("" if clear else " (not significant)")
    caption = "Phone error rates on the test set, lower is better, with 95 % intervals."
    return Part("Speech", answer, winner, table, protocol, lambda: _rate_bars(rates), caption)


def _phone_error_rates(results: Results) -> dict[str, tuple[float, float, float]]:
    """The test error in % of the chosen model of each kind, with its interval."""
    rates = {}
    for kind, name in {"kernel": KERNEL, "network": "network", "gmm": "GMM"}.items():
        test = results.chosen(kind)[0].test
        assert test is not None
        rates[name] = (100 * test["ter"], 100 * test["low"], 100 * test["high"])
    return rates


def _rate_bars(rates: Mapping[str, tuple[float, float, float]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.subplots()
    for i, (name, (error, low, high)) in enumerate(rates.items()):
        axes.errorbar([error], [i], xerr=[[error - low], [high - error]], fmt=MARKERS[i], color=COLORS[i], label=name)
    axes.set_yticks(range(len(rates)), list(rates))
    axes.set_ylim(len(rates) - 0.5, -0.5)
    axes.set_xlabel("phone error rate in %")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


# -- low-rank factors --------------------------------------------------------------------------------------------------


def lowrank_factors(root: Path) -> Part:
    """The error of low-rank factors of a kernel matrix by rank, compared with the optimum."""
    inputs = {"methods": list(METHODS), "ranks": list(RANKS), "rows": _num_rows()}
    errors = Stage(root / "lowrank.json", inputs).run(lambda: _frobenius_errors())
    errors = {method: errors[method] for method in METHODS}
    optimum, last = errors["svd"][-1], RANKS[-1]
    ratios = {method: errors[method][-1] / optimum for method in METHODS if method != "svd"}
    best = min(ratios, key=lambda method: ratios[method])
    answer = (
        f"At rank {last}, {best} is within {100 * (ratios[best] - 1):.1f} % of the lowest possible error; "
        f"{last} random Fourier features have {ratios['fourier']:.0f} times that error."
    )
    table = [["error in %", *(f"rank {rank}" for rank in RANKS)]]
    table += [[method, *(f"{100 * error:.2f}" for error in values)] for method, values in errors.items()]
    protocol = (
        "The error is ||K - U U^T|| / ||K|| in the Frobenius norm, for the Gaussian kernel matrix K of the digits with "
        f"the median distance as bandwidth; one seed. {'; '.join(f'{name}: {text}' for name, text in METHODS.items())}."
    )
    winner = f"{best} among low-rank factors"
    caption = "Error of the approximation by its rank, lower is better; both axes are logarithmic."
    return Part("Low-rank factors", answer, winner, table, protocol, lambda: _error_curves(errors), caption)


def _frobenius_errors() -> dict[str, list[float]]:
    X = torch.from_numpy(_table_sets()["digits"]()[0]).float()
    kernel = Gaussian().with_bandwidth("median", X, generator=torch.Generator().manual_seed(0))
    norm = float(kernel(X, X).double().norm())

    def error(method: str, rank: int) -> float:
        generator = torch.Generator().manual_seed(0)
        factor = fit_factor(method, kernel, X, rank=rank, generator=generator)
        return frobenius_error(factor, X, generator=generator).value / norm

    return {method: [error(method, rank) for rank in RANKS] for method in METHODS}


def _error_curves(errors: Mapping[str, Sequence[float]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0], 3.6), layout="constrained")
    axes = figure.subplots()
    for (method, values), color, marker in zip(errors.items(), COLORS, MARKERS, strict=False):
        axes.loglog(RANKS, [100 * value for value in values], color=color, marker=marker, label=method)
    axes.set_xticks(RANKS, [str(rank) for rank in RANKS])
    low, high = axes.get_ylim()
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100) if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("rank")
    axes.set_ylabel("error in %")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize="small", ncols=2, frameon=False)
    return figure


# -- the page ----------------------------------------------------------------------------------------------------------


def write_page(parts: Sequence[Part], root: Path) -> Path:
    """Write the answers, figures and tables of all parts as one page."""
    page = Page("bochner demo")
    page.items(part.answer for part in parts)
    for part in parts:
        head, *lines = part.table
        page.heading(part.title).text(part.answer).figure(part.figure(), part.caption).table(head, lines)
        page.note(part.protocol)
    page.link("All results on speech: learning curves, confusions and decoded utterances", f"{SPEECH}/{REPORT}")
    page.note(MACHINES)
    page.write(root / REPORT)
    return root / REPORT
