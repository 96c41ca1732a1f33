"""The page: what a speech researcher looks for first stands first."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bochner.acoustic.fitted import HISTORY, SELECTION
from bochner.acoustic.report.figures import NOTHING, confusion_matrix, input_weights, learning_curves, survival_curves
from bochner.acoustic.report.listings import Listed, confusions, read_listing
from bochner.acoustic.results import Results, Row, read_results
from bochner.acoustic.table import all_models, comparison, protocol
from bochner.report import Page

FILE = "report.html"
SHARES = "what was said (rows) and heard (columns) in utterances with an error; each row sums to 1."
HEARD = {"kernel": "Kernel model", "network": "Network"}
MOST_CURVES, MOST_UTTERANCES, MOST_CONFUSIONS, MOST_TOKENS = 8, 5, 20, 64


def write_report(run: str | os.PathLike[str]) -> Path:
    """The report of a finished run, `run`/report.html, from its results.json and the folders of its models.

    Models with several seeds are shown by the first. What a run does not have, such as selected features, has no
    section.
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
    page.heading("The best of each kind").table(head, lines).note(protocol(results))


def _learning(page: Page, results: Results, root: Path) -> None:
    found = _read(root, _shown_models(results), HISTORY)
    if not found:
        return
    captions = {"ce": "Cross-entropy", "err": "Share of frames whose state is wrong"}
    drawn = [(learning_curves(found, name, label), f"{label} on heldout.") for name, label in captions.items()]
    page.heading("Learning curves").figures(drawn)


def _selection(page: Page, results: Results, root: Path) -> None:
    found = _read(root, _shown_models(results), SELECTION)
    if not found:
        return
    context = results.recipe["frontend"]["context"]
    page.heading("Selected features")
    page.figure(survival_curves(found), "Of the features kept after each round, how many are in the final model.")
    page.heading("Weights of the inputs").figures(
        (input_weights(one["input_weights"], context=context), f"{name}: mean 1; frame 0 is the one to be told.")
        for name, one in found.items()
    )


def _confusion(page: Page, results: Results, root: Path) -> None:
    listings = _listings(results, root)
    if not any(listings.values()):
        return
    page.heading("What was taken for what")
    times = {HEARD[kind]: confusions(listing) for kind, listing in listings.items()}
    small = {name: found for name, found in times.items() if len(set(chain.from_iterable(found))) <= MOST_TOKENS}
    page.figures((confusion_matrix(found), f"{name}: {SHARES}") for name, found in small.items())
    for name, found in times.items():
        wrong = [(pair, number) for pair, number in found.most_common() if pair[0] != pair[1]][:MOST_CONFUSIONS]
        page.subheading(f"{name}, most frequent errors")
        page.table(["said", "heard", "times"], [[*(one or NOTHING for one in pair), number] for pair, number in wrong])


def _utterances(page: Page, results: Results, root: Path) -> None:
    listings = {kind: {one.id: one for one in listing} for kind, listing in _listings(results, root).items()}
    names = list(dict.fromkeys(name for listing in listings.values() for name in listing))[:MOST_UTTERANCES]
    if not names:
        return
    page.heading("Some utterances").text("Reference above hypothesis; S, D and I mark substituted, deleted, inserted.")
    for name in names:
        page.subheading(name)
        for kind, listing in listings.items():
            page.code(f"{HEARD[kind]}\n{listing[name].text if name in listing else 'all right'}")


def _models(page: Page, results: Results, root: Path) -> None:
    head, *lines = all_models(results)
    page.heading("All models").table(head, lines)


def _recipe(page: Page, results: Results, root: Path) -> None:
    page.heading("Recipe").code(json.dumps(results.recipe, indent=1, ensure_ascii=False))


def _shown_models(results: Results) -> list[Row]:
    """Trained models by dev error, the chosen first; one seed of each."""
    first: dict[str, Row] = {}
    for row in sorted(results.rows, key=lambda row: row.seed):
        first.setdefault(row.model, row)
    return sorted(first.values(), key=lambda row: row.dev["ter"])[:MOST_CURVES]


def _read(root: Path, rows: Sequence[Row], name: str) -> dict[str, Any]:
    """A JSON file of each model that has it."""
    paths = {row.model: root / row.folder / name for row in rows}
    return {model: json.loads(path.read_bytes()) for model, path in paths.items() if path.is_file()}


def _listings(results: Results, root: Path) -> dict[str, list[Listed]]:
    """What the chosen kernel model and network heard: in test, or where that was not decoded in dev."""
    chosen = {kind: rows[0] for kind in HEARD if (rows := results.chosen(kind))}
    return {kind: read_listing(_decoded(root / row.folder)) for kind, row in chosen.items()}


def _decoded(folder: Path) -> Path:
    parts = [folder / "decoded" / part for part in ("test", "dev")]
    return next((part for part in parts if part.is_dir()), parts[-1])
