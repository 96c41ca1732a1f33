"""The text of a report: the headline, the comparison with a constant, and the cautions."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest

from bochner.data import TableEncoder
from bochner.estimators.evaluation import Evaluation
from bochner.estimators.summary import baseline, cautions, headline, most_important

NAMES = ["no", "yes"]


def classes(n: int, *, accuracy: float, share: float = 0.5, seed: int = 0, confidence: float = 0.8) -> Evaluation:
    """Predictions of two classes, right with a given probability."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    predicted = np.where(rng.random(n) < accuracy, y, 1 - y)
    p = np.where(predicted == 1, confidence, 1 - confidence)
    return Evaluation.of(y, np.stack([1 - p, p], axis=1))


def numbers(n: int, *, noise: float) -> Evaluation:
    rng = np.random.default_rng(0)
    y = rng.normal(size=n)
    return Evaluation.of(y, y + noise * rng.normal(size=n))


def model(**attributes: Any) -> Any:
    return SimpleNamespace(n_features_in_=2, **attributes)


def sentences(**arguments: Any) -> str:
    options = {"held_out": None, "test": None, "classes": NAMES, "X": None, **arguments}
    return " ".join(cautions(options.pop("estimator", model()), **options))


def test_the_constant_is_the_share_of_the_classes_or_the_mean() -> None:
    y = np.array([0, 1, 1, 1])
    constant = baseline(Evaluation.of(y, np.eye(2)[y], [1, 1, 1, 3]))
    np.testing.assert_allclose(constant.predictions, np.tile([1 / 6, 5 / 6], (4, 1)))
    assert constant.scores()["accuracy"].value == pytest.approx(5 / 6)
    assert baseline(numbers(50, noise=1)).scores()["R2"].value == pytest.approx(0)


def test_headlines() -> None:
    text = headline(classes(1000, accuracy=0.8, share=0.3), NAMES, "test")
    assert re.match(r"On 1,000 test rows, (79|8\d)(\.\d)? % ± 2(\.\d)? % of the predictions are right", text)
    assert "Always answering 'no' would be right for" in text
    text = headline(numbers(1000, noise=0.5), None, "held-out")
    assert re.search(r"predictions are off by 0\.4\d* ± 0\.0[12]\d* on average", text)
    assert "Always answering the mean would be off by 0.7" in text


def test_good_scores_of_many_rows_need_no_caution() -> None:
    good = classes(2000, accuracy=0.8)
    text = sentences(test=good, held_out=good)
    for word in ("Only", "not certain", "literally", "differ", "recognised", "served to choose"):
        assert word not in text
    assert "same time, same place" in text


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"test": classes(50, accuracy=0.9)}, "Only 50 rows were scored"),
        ({"test": classes(500, accuracy=0.5)}, "not certain that the model is better than a constant: its accuracy"),
        ({"test": numbers(500, noise=3), "classes": None}, "its R2"),
        ({"test": classes(1000, accuracy=0.8, confidence=0.99)}, "do not take them literally"),
        (
            {"held_out": classes(2000, accuracy=0.9), "test": classes(2000, accuracy=0.7)},
            "the test rows differ from those of training",
        ),
        ({"test": classes(2000, accuracy=0.9, share=0.02)}, "Class 'yes' has"),
        ({"held_out": classes(500, accuracy=0.9)}, "rows that also served to choose the model"),
        (
            {"estimator": model(feature_importances_=np.array([0.9, 0.1]), feature_names_in_=["code", "age"])},
            "Column 'code' has 90 % of the importance",
        ),
    ],
)
def test_cautions(arguments: dict[str, Any], expected: str) -> None:
    assert expected in sentences(**arguments)


def test_a_class_that_is_rarely_recognised() -> None:
    y = np.arange(1000) % 2
    p = np.where(y == 1, np.where(np.arange(1000) % 10 < 3, 0.7, 0.3), 0.1)
    text = sentences(test=Evaluation.of(y, np.stack([1 - p, p], axis=1)))
    assert "Of the rows of class 'yes', only" in text


def test_values_that_training_did_not_see_and_columns_that_are_not_used() -> None:
    frame = pandas.DataFrame({"job": ["clerk", "nurse"] * 20, "country": "NL"})
    encoder, _ = TableEncoder.fit(frame, [0, 1] * 20, num_classes=2)
    new = pandas.DataFrame({"job": ["clerk"] * 15 + ["pilot"] * 5, "country": "BE"})
    text = sentences(estimator=model(encoder_=encoder), X=new)
    assert "25 % of the test rows have a value of 'job' that training did not see" in text
    assert "['country'] were constant, missing or different" in text
    assert "did not see" not in sentences(estimator=model(encoder_=encoder), X=frame)


def test_the_most_important_columns() -> None:
    fitted = model(feature_importances_=np.array([0.2, 0.8]), feature_names_in_=["a", "b"])
    assert most_important(fitted) == "Predictions depend most on b (80 %), a (20 %)."
    assert most_important(model(feature_importances_=None)) is None
