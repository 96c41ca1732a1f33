"""The report of a small run, whose files are written by hand."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from bochner.acoustic.report import (
    answer,
    confusion_matrix,
    errors_on_test,
    input_weights,
    read_listing,
    write_report,
)
from bochner.acoustic.results import Results, Row
from bochner.speech.score import Protocol, error_listing, score

REFERENCES = {"u1": "sil a b sil", "u2": "a a <b>", "u3": "b"}
HYPOTHESES = {
    "laplacian": {"u1": "sil b b sil", "u2": "a a <b> a", "u3": "b"},
    "tanh": {"u1": "sil a b sil", "u2": "b a <b>"},
}


def made_row(model: str, kind: str, dev: float, **changes: object) -> Row:
    heldout = {"ce": 1.0, "perplexity": 2.7, "perplexity_silence_collapsed": 2.5, "ent": 0.5, "erll": 1.5, "err": 0.3}
    test = {"ter": 0.3, "low": 0.2, "high": 0.4, "tokens": 8}
    row = Row(model=model, kind=kind, settings={}, seed=0, heldout=heldout, dev={"ter": dev}, test=test, seconds=9.0,
              directory=f"models/{model}-0")  # fmt: skip
    return replace(row, **changes)


def made_run(root: Path) -> Path:
    rows = [
        made_row("gaussian", "kernel", 0.5, test=None), made_row("laplacian", "kernel", 0.3),
        made_row("laplacian", "kernel", 0.2, seed=1, directory="models/laplacian-1"),
        made_row("tanh", "network", 0.3), made_row("sat GMM", "gmm", 0.6, heldout={}),
    ]  # fmt: skip
    recipe = {"name": "toy", "seeds": [0, 1], "frontend": {"context": 1}}
    results = Results(recipe=recipe, protocol="per", synthetic=True, corpus="toy", num_states=7, rows=rows)
    for row in rows:
        directory = root / row.directory
        directory.mkdir(parents=True)
        if row.kind in ("kernel", "network"):
            history = [{"epoch": n, "ce": 2.0 / n, "err": 0.6 / n} for n in (1, 2, 3)]
            (directory / "history.json").write_text(json.dumps(history))
        if row.test is not None and row.model in HYPOTHESES:
            result = score(REFERENCES, HYPOTHESES[row.model], protocol=Protocol(unit="phones"))
            (directory / "decoded" / "test").mkdir(parents=True)
            (directory / "decoded" / "test" / "errors.txt").write_text(error_listing(result) + "\n")
    facts = {"survival": [0.2, 0.5], "chance": [0.1, 0.3], "input_weights": [0.5, 1.0, 1.5, 1.0, 0.5, 1.5]}
    (root / "models" / "laplacian-0" / "selection.json").write_text(json.dumps(facts))
    results.write(root)
    return root


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return made_run(tmp_path)


@pytest.fixture(scope="module")
def html(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_report(made_run(tmp_path_factory.mktemp("run"))).read_text(encoding="utf-8")


def test_the_report_has_all_its_sections_in_one_file(html):
    for heading in ("The best of each kind", "Learning curves", "Selected features", "Weights of the inputs",
                    "Confusions", "Some utterances", "All models", "Recipe"):  # fmt: skip
        assert f">{heading}</h2>" in html
    assert html.count("<svg") == 1 + 2 + 1 + 1 + 2  # errors, curves, survival, weights, a matrix for each kind
    assert html.index(" has the lowest test ") < html.index("<svg") < html.index("<table")  # answer, plot, table
    assert "PER test %" in html
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "src=" not in html.replace("src=data", "")  # nothing is fetched


def test_utterances_are_those_of_the_chosen_models_side_by_side(html):
    shown = html[html.index("Some utterances</h2>") : html.index("All models</h2>")]
    assert [f"<h3>{name}</h3>" in shown for name in ("u1", "u2", "u3")] == [True] * 3  # u3: not decoded by the network
    assert shown.count("correct") == 2  # u1 by the network, u3 by the kernel model
    assert "REF: sil a b sil" in shown


def test_sections_without_content_are_left_out(run):
    (run / "models" / "laplacian-0" / "selection.json").unlink()
    for listing in run.glob("models/*/decoded/test/errors.txt"):
        listing.unlink()
    html = write_report(run).read_text(encoding="utf-8")
    for heading in ("Selected features", "Weights of the inputs", "Confusions", "Some utterances"):
        assert heading not in html


def test_a_listing_gives_back_the_errors_that_were_counted(run):
    result = score(REFERENCES, HYPOTHESES["laplacian"], protocol=Protocol(unit="phones"))
    listing = read_listing(run / "models" / "laplacian-0" / "decoded" / "test")
    read = Counter(pair for utterance in listing for pair in utterance.pairs)
    wrong = {pair: times for pair, times in result.confusions.items() if pair[0] != pair[1]}
    assert {pair: times for pair, times in read.items() if pair[0] != pair[1]} == wrong
    assert read["a", "a"] == 2


def test_a_confusion_matrix_holds_shares_of_reference_tokens():
    axes = confusion_matrix({("a", "a"): 3, ("a", "b"): 1, ("b", None): 2, (None, "b"): 5}).axes[0]
    shares = axes.images[0].get_array().data.tolist()
    assert shares == [[0.75, 0.25, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["a", "b", "(none)"]


def test_input_weights_are_arranged_by_frame():
    axes = input_weights([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], context=1).axes[0]
    assert axes.images[0].get_array().data.tolist() == [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    assert axes.images[0].get_extent() == [-0.5, 1.5, 1.5, -1.5]  # frame -1 on top


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ({}, "No model was decoded on test"),
        ({"kernel": (0.2, 0.1, 0.3)}, r"lowest test PER: 20\.0 % \(10\.0 to 30\.0\)\.$"),
        ({"kernel": (0.2, 0.1, 0.3), "network": (0.5, 0.4, 0.6)}, r"20\.0 % .* All other intervals lie above it\.$"),
        ({"kernel": (0.2, 0.1, 0.3), "network": (0.4, 0.3, 0.5)}, r"overlap with it: .* 40\.0 %\.$"),
    ],
)
def test_the_answer_compares_intervals_on_test(tests, expected):
    rows = [
        made_row(kind, kind, 0.3, test=dict(zip(("ter", "low", "high"), test, strict=True)))
        for kind, test in tests.items()
    ]
    rows = rows or [made_row("kernel", "kernel", 0.3, test=None)]
    recipe = {"name": "toy", "seeds": [0], "frontend": {"context": 1}}
    results = Results(recipe=recipe, protocol="per", synthetic=True, corpus="toy", num_states=7, rows=rows)
    assert re.search(expected, answer(results))
    assert bool(errors_on_test(results)) == bool(tests)
