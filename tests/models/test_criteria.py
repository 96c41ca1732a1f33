"""Metrics against their definitions, row by row."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Generator

from bochner.models.losses import LOSSES, Criterion, Scores

LOGITS = 2 * torch.randn(50, 4, generator=Generator().manual_seed(0))
Y = torch.randint(0, 4, (50,), generator=Generator().manual_seed(1))


def probabilities() -> np.ndarray:
    powers = np.exp(LOGITS.double().numpy())
    return powers / powers.sum(axis=1, keepdims=True)


def oracle(name: str, parameter: float) -> float:
    p = probabilities()
    right = np.array([row[y] for row, y in zip(p, Y.tolist(), strict=True)])
    ce = -np.mean(np.log(right))
    ent = np.mean([-sum(q * math.log(q) for q in row) for row in p])
    return {
        "ce": ce,
        "ent": ent,
        "erll": ce + parameter * ent,
        "err": np.mean(p.argmax(axis=1) != Y.numpy()),
        "perplexity": math.exp(ce),
        "capped": -np.mean(np.log(right + parameter)),
        "topk": -np.mean(np.log(np.sort(right)[::-1][: max(1, round(parameter * 50))])),
    }[name]


@pytest.mark.parametrize(
    "text", ["ce", "ent", "err", "perplexity", "erll", "erll:0.5", "capped:0.2", "capped:0", "topk:0.6", "topk:1"]
)
def test_metric_is_its_definition(text: str) -> None:
    metric = Criterion.parse(text)
    whole = Scores.of_batch("softmax", LOGITS, Y)
    assert metric.of(whole) == pytest.approx(oracle(metric.name, metric.parameter or 0.0), rel=1e-10)
    parts = [Scores.of_batch("softmax", LOGITS[i : i + 7], Y[i : i + 7]) for i in range(0, 50, 7)]
    assert metric.of(Scores.join(parts)) == pytest.approx(metric.of(whole), rel=1e-12)


def test_identities_between_metrics() -> None:
    rows = Scores.of_batch("softmax", LOGITS, Y)

    def value(text: str) -> float:
        return Criterion.parse(text).of(rows)

    assert [value("erll:0"), value("capped:0"), value("topk:1")] == pytest.approx([value("ce")] * 3)
    assert value("erll") == pytest.approx(value("ce") + value("ent"))
    assert value("topk:0.5") < value("topk:0.9") < value("ce")
    assert value("capped:0.5") < value("capped:0.1") < value("ce")


def test_logistic_is_softmax_with_one_logit_fixed() -> None:
    logit, y = LOGITS[:, :1], Y % 2
    both = torch.cat([torch.zeros_like(logit), logit], dim=1)
    one, two = Scores.of_batch("logistic", logit, y), Scores.of_batch("softmax", both, y)
    assert one.summary() == pytest.approx(two.summary())
    torch.testing.assert_close(LOSSES["logistic"](logit, y), LOSSES["softmax"](both, y))


def test_integer_weights_are_repeated_rows() -> None:
    weight = torch.randint(1, 4, (50,), generator=Generator().manual_seed(2))
    weighted = Scores.of_batch("softmax", LOGITS, Y, weight)
    repeated = Scores.of_batch("softmax", LOGITS.repeat_interleave(weight, dim=0), Y.repeat_interleave(weight))
    assert weighted.summary() == pytest.approx(repeated.summary())
    total = int(weight.sum())
    for kept in (1, total // 3, total):  # a fraction of the weight that is a whole number of the repeated rows
        metric = Criterion("topk", kept / total)
        assert metric.of(weighted) == pytest.approx(metric.of(repeated))


def test_squared_error() -> None:
    rows = Scores.of_batch("squared", LOGITS[:, :1], LOGITS[:, 1])
    expected = float((LOGITS[:, 0] - LOGITS[:, 1]).square().mean())
    assert rows.summary() == {"mse": pytest.approx(expected)}
    assert float(LOSSES["squared"](LOGITS[:, :1], LOGITS[:, 1])) == pytest.approx(expected / 2)


def test_losses_are_the_metrics() -> None:
    assert float(LOSSES["softmax"](LOGITS, Y)) == pytest.approx(oracle("ce", 0))


@given(st.text(max_size=8))
def test_nonsense_is_refused(text: str) -> None:
    assume(text.split(":")[0] not in ("ce", "ent", "err", "perplexity", "erll", "capped", "topk", "mse"))
    with pytest.raises(ValueError, match="criterion must be one of"):
        Criterion.parse(text)


@pytest.mark.parametrize("text", ["ce:1", "erll:-1", "erll:x", "topk:0", "topk:1.5", "capped:nan"])
def test_bad_parameters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"criterion .*{text.split(':')[0]}"):
        Criterion.parse(text)
