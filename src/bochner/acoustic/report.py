"""The HTML report of an experiment: tables, learning curves, confusions and decoded utterances."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bochner.acoustic.results import HEADINGS, Results, Row, all_models, comparison, protocol, read_results
from bochner.acoustic.training import HISTORY, SELECTION
from bochner.report import Page
from bochner.speech.score.error_rates import Pair
from bochner.speech.score.report import GAP

FILE = "report.html"
CONFUSIONS = "reference tokens (rows) and hypotheses (columns) of utterances with an error; each row sums to 1."
KINDS = {"kernel": "Kernel model", "network": "Network"}
MAX_CURVES, MAX_UTTERANCES, MAX_CONFUSIONS, MAX_TOKENS = 8, 5, 20, 64
REFERENCE, HYPOTHESIS = "REF:", "HYP:"
LISTING = "errors.txt"
# The palette of Okabe & Ito, which is safe for colour-blind readers, with a marker for each colour.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#B8A100")
MARKERS = "osD^vPX*"
CHANCE = "#777777"
WIDTH, HEIGHT = 5.2, 3.4
NO_TOKEN = "(none)"
T = TypeVar("T")


def write_report(run: str | os.PathLike[str]) -> Path:
    """Write `run`/report.html from the results.json and the models of a finished experiment; returns its path.

    Models with several seeds are shown by the first seed. Sections without content, such as those of selected features,
    are left out.
    """
    root = Path(run)
    results = read_results(root)
    page = Page(f"{results.recipe['name']}: kernel models against networks")
    for section in (_comparison, _learning, _selection, _confusion, _utterances, _models, _recipe):
        section(page, results, root)
    page.write(root / FILE)
    return root / FILE


def _comparison(page: Page, results: Results, root: Path) -> None:
    head, *lines = comparison(results)
    page.text(answer(results)).heading("The best of each kind")
    if errors := errors_on_test(results):
        page.figure(error_bars(errors, results), "Test error of the best model of each kind, with 95 % intervals.")
    page.table(head, lines).note(protocol(results))


def errors_on_test(results: Results) -> dict[str, tuple[float, float, float]]:
    """Test error in per cent of the best model of each kind, with its confidence limits: means over the seeds."""
    errors = {}
    for kind, heading in HEADINGS.items():
        tests = [row.test for row in results.chosen(kind)]
        if tests and all(test is not None and "low" in test for test in tests):
            ends = [[test[name] for test in tests if test is not None] for name in ("ter", "low", "high")]
            rate, low, high = (100 * float(np.mean(values)) for values in ends)
            errors[heading] = (rate, low, high)
    return errors


def answer(results: Results) -> str:
    """The result in one or two sentences: which model has the lowest test error, and whether the intervals overlap."""
    errors = errors_on_test(results)
    if not errors:
        return "No model was decoded on test; the table shows the errors on dev."
    name = results.protocol[:3].upper()
    best, *others = sorted(errors, key=lambda heading: errors[heading][0])
    rate, low, high = errors[best]
    first = f"The {best} has the lowest test {name}: {rate:.1f} % ({low:.1f} to {high:.1f})."
    if not others:
        return first
    close = [heading for heading in others if errors[heading][1] <= high]
    if not close:
        return f"{first} All other intervals lie above it."
    listed = ", ".join(f"{heading} {errors[heading][0]:.1f} %" for heading in close)
    return f"{first} These intervals overlap with it: {listed}."


def error_bars(errors: Mapping[str, tuple[float, float, float]], results: Results) -> Any:
    """Test errors with their intervals, one line per kind of model."""
    figure, axes = _axes(xlabel=f"test {results.protocol[:3].upper()} in %", size=(WIDTH, 0.8 + 0.4 * len(errors)))
    for place, (rate, low, high) in enumerate(errors.values()):
        axes.errorbar(rate, place, xerr=[[rate - low], [high - rate]], fmt="o", color=COLORS[0], capsize=3)
    axes.set_yticks(range(len(errors)), list(errors))
    axes.set_ylim(len(errors) - 0.5, -0.5)
    return figure


def _learning(page: Page, results: Results, root: Path) -> None:
    histories = _read(root, _shown_models(results), HISTORY)
    if not histories:
        return
    labels = {"ce": "Cross-entropy", "err": "Frame error rate"}
    curves = [(learning_curves(histories, name, label), f"{label} on heldout.") for name, label in labels.items()]
    page.heading("Learning curves").figures(curves)


def _selection(page: Page, results: Results, root: Path) -> None:
    selections = _read(root, _shown_models(results), SELECTION)
    if not selections:
        return
    context = results.recipe["frontend"]["context"]
    page.heading("Selected features")
    if survivals := {name: facts for name, facts in selections.items() if "survival" in facts}:  # not after "fobos"
        page.figure(survival_curves(survivals), "The share of the features of each round that are in the final model.")
    page.heading("Weights of the inputs").figures(
        (input_weights(facts["input_weights"], context=context), f"{name}: mean 1; frame 0 is the classified frame.")
        for name, facts in selections.items()
    )


def _confusion(page: Page, results: Results, root: Path) -> None:
    listings = _listings(results, root)
    if not any(listings.values()):
        return
    page.heading("Confusions")
    counts = {KINDS[kind]: Counter(chain.from_iterable(u.pairs for u in listing)) for kind, listing in listings.items()}
    small = {name: pairs for name, pairs in counts.items() if len(set(chain.from_iterable(pairs))) <= MAX_TOKENS}
    page.figures((confusion_matrix(pairs), f"{name}: {CONFUSIONS}") for name, pairs in small.items())
    for name, pairs in counts.items():
        errors = [(pair, count) for pair, count in pairs.most_common() if pair[0] != pair[1]][:MAX_CONFUSIONS]
        page.subheading(f"{name}, most frequent errors")
        lines: list[list[str | float]] = [
            [reference or NO_TOKEN, hypothesis or NO_TOKEN, count] for (reference, hypothesis), count in errors
        ]
        page.table(["reference", "hypothesis", "count"], lines)


def _utterances(page: Page, results: Results, root: Path) -> None:
    listings = {kind: {u.id: u for u in listing} for kind, listing in _listings(results, root).items()}
    names = list(dict.fromkeys(name for listing in listings.values() for name in listing))[:MAX_UTTERANCES]
    if not names:
        return
    page.heading("Some utterances").text("References and hypotheses; S, D, I: substitution, deletion, insertion.")
    for name in names:
        page.subheading(name)
        for kind, listing in listings.items():
            page.code(f"{KINDS[kind]}\n{listing[name].text if name in listing else 'correct'}")


def _models(page: Page, results: Results, root: Path) -> None:
    head, *lines = all_models(results)
    page.heading("All models").table(head, lines)


def _recipe(page: Page, results: Results, root: Path) -> None:
    page.heading("Recipe").code(json.dumps(results.recipe, indent=1, ensure_ascii=False))


def _shown_models(results: Results) -> list[Row]:
    """Trained models by error on dev, with the first seed of each."""
    first: dict[str, Row] = {}
    for row in sorted(results.rows, key=lambda row: row.seed):
        first.setdefault(row.model, row)
    return sorted(first.values(), key=lambda row: row.dev["ter"])[:MAX_CURVES]


def _read(root: Path, rows: Sequence[Row], name: str) -> dict[str, Any]:
    """A JSON file of each model that has one."""
    paths = {row.model: root / row.directory / name for row in rows}
    return {model: json.loads(path.read_bytes()) for model, path in paths.items() if path.is_file()}


def _listings(results: Results, root: Path) -> dict[str, list[ListedUtterance]]:
    """The errors of the chosen kernel model and network on test, or on dev if test was not decoded."""
    listings = {}
    for kind in KINDS:
        if rows := results.chosen(kind):
            parts = [root / rows[0].directory / "decoded" / part for part in ("test", "dev")]
            listings[kind] = read_listing(next((part for part in parts if part.is_dir()), parts[-1]))
    return listings


class ListedUtterance(NamedTuple):
    """An utterance with errors: its id, its lines in the listing, and its aligned tokens."""

    id: str
    text: str
    pairs: tuple[Pair, ...]


def read_listing(decoded: Path) -> list[ListedUtterance]:
    """The utterances in the errors.txt of a decoded part, which are those with an error; empty without that file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     text = "ann-1 (ann): 1 substitution\\nREF: yes no\\nHYP: yes oh\\n         S\\n"
    ...     _ = (Path(directory) / LISTING).write_text(text)
    ...     [(utterance.id, utterance.pairs) for utterance in read_listing(Path(directory))]
    [('ann-1', (('yes', 'yes'), ('no', 'oh')))]
    """
    path = decoded / LISTING
    blocks = path.read_text(encoding="utf-8").strip("\n").split("\n\n") if path.is_file() else []
    utterances = []
    for block in filter(None, blocks):
        title, reference, hypothesis, *_ = block.split("\n")
        pairs = zip(_tokens(reference, REFERENCE), _tokens(hypothesis, HYPOTHESIS), strict=True)
        utterances.append(ListedUtterance(title.split(" (")[0], block, tuple(pairs)))
    return utterances


def _tokens(line: str, head: str) -> list[str | None]:
    return [None if token == GAP else token for token in line.removeprefix(head).split()]


def learning_curves(histories: Mapping[str, Sequence[Mapping[str, Any]]], score: str, label: str) -> Any:
    """A matplotlib figure of a heldout score by epoch, of the last block of features; matplotlib is optional."""
    figure, axes = _curves(xlabel="epoch", ylabel=label)
    for history, style in _styled(histories):
        records = [record for record in history if record.get("block") == history[-1].get("block")]
        axes.plot([record["epoch"] for record in records], [record[score] for record in records], **style)
    axes.legend(fontsize=7, frameon=False)
    return figure


def survival_curves(survivals: Mapping[str, Mapping[str, Sequence[float]]]) -> Any:
    """The share of the features kept in each round that are in the final model, and the share by chance."""
    figure, axes = _curves(xlabel="round of selection", ylabel="surviving share", yscale="log")
    for facts, style in _styled(survivals):
        axes.plot(range(1, len(facts["survival"]) + 1), facts["survival"], **style)
    for chance in {tuple(facts["chance"]) for facts in survivals.values()}:
        axes.plot(range(1, len(chance) + 1), chance, color=CHANCE, linestyle=":", label="by chance")
    axes.legend(fontsize=7, frameon=False)
    return figure


def input_weights(weights: Sequence[float], *, context: int) -> Any:
    """The relative weight of each input: rows are the frames of the context, columns the coefficients of a frame."""
    values = np.asarray(weights).reshape(2 * context + 1, -1)
    figure, axes = _axes(xlabel="coefficient", ylabel="frame")
    extent = (-0.5, values.shape[1] - 0.5, context + 0.5, -context - 0.5)
    image = axes.imshow(values, aspect="auto", cmap="cividis", extent=extent, interpolation="nearest")
    figure.colorbar(image, label="relative weight")
    return figure


def confusion_matrix(pairs: Mapping[Pair, int]) -> Any:
    """The hypothesised tokens of each reference token as shares; deletions and insertions are paired with "none".

    The colour is proportional to the square root of the share, which makes rare errors visible.
    """
    from matplotlib.colors import PowerNorm

    tokens = sorted({token for pair in pairs for token in pair if token is not None})
    index = {token: i for i, token in enumerate([*tokens, None])}
    counts = np.zeros((len(index), len(index)))
    for (reference, hypothesis), count in pairs.items():
        counts[index[reference], index[hypothesis]] = count
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = max(HEIGHT, 0.11 * len(index) + 0.4)
    figure, axes = _axes(xlabel="hypothesis", ylabel="reference", size=(1.1 * size, size))
    image = axes.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
    axes.set_xticks(range(len(index)), [*tokens, NO_TOKEN], fontsize=6, rotation=90)
    axes.set_yticks(range(len(index)), [*tokens, NO_TOKEN], fontsize=6)
    axes.grid(visible=False)
    figure.colorbar(image, label="share of the row", shrink=0.6)
    return figure


def _curves(**settings: Any) -> tuple[Any, Any]:
    """Axes with integer ticks for epochs or rounds."""
    figure, axes = _axes(**settings)
    axes.xaxis.get_major_locator().set_params(integer=True)
    return figure, axes


def _styled(values: Mapping[str, T]) -> Iterator[tuple[T, dict[str, Any]]]:
    """Each value with a different colour and marker."""
    for (name, value), color, marker in zip(values.items(), cycle(COLORS), cycle(MARKERS), strict=False):
        yield value, {"color": color, "marker": marker, "markersize": 3, "linewidth": 1.3, "label": name}


def _axes(*, size: tuple[float, float] = (WIDTH, HEIGHT), **settings: Any) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"figures need matplotlib: pip install bochner[plot] ({error}).") from error
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.set(**settings)
    axes.grid(alpha=0.3)
    return figure, axes
