"""Calibration compared with other optimisers, on degenerate rows, and its effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Generator, Tensor
from torch.nn import functional as F

from bochner.models.calibration import DEFAULT_SLOPE, MIN_SLOPE, fit_calibration


def two_classes(n: int, *, seed: int = 0, shift: float = -1.0) -> tuple[Tensor, Tensor, Tensor]:
    """Scores [n, 1] like those of least squares, labels, and weights."""
    generator = Generator().manual_seed(seed)
    logit = 2 * torch.randn(n, generator=generator, dtype=torch.float64) + shift
    labels = (torch.rand(n, generator=generator) < logit.sigmoid()).long()
    weight = 0.5 + torch.rand(n, generator=generator, dtype=torch.float64)
    return (0.12 * logit + 0.3)[:, None], labels, weight


def classes(n: int, C: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(n, C, generator=generator, dtype=torch.float64) - 0.5 * torch.arange(C)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return 0.15 * logits + 1 / C, labels


def test_platt_scaling_is_logistic_regression_on_smoothed_targets() -> None:
    scores, labels, weight = two_classes(400)
    slope, offset = fit_calibration(scores, labels, weight)
    w = weight / weight.mean()
    positive, negative = float(w[labels == 1].sum()), float(w[labels == 0].sum())
    target = torch.where(labels == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    rows = torch.cat([scores, scores]).numpy()  # each row as both classes, with the target as its weight
    both = np.repeat([1, 0], len(labels))
    counts = torch.cat([w * target, w * (1 - target)]).numpy()
    expected = LogisticRegression(C=1e12, tol=1e-12, solver="newton-cholesky").fit(rows, both, sample_weight=counts)
    assert slope == pytest.approx(float(expected.coef_[0, 0]), rel=1e-5)
    assert float(offset[0]) == pytest.approx(float(expected.intercept_[0]), rel=1e-5)


@pytest.mark.parametrize("C", [3, 7])
def test_several_classes_against_a_general_optimiser(C: int) -> None:
    scores, labels = classes(300, C)
    slope, offset = fit_calibration(scores, labels)
    n = len(labels)
    targets = torch.full((n, C), 1 / ((n + 2) * (C - 1)), dtype=torch.float64)
    targets[torch.arange(n), labels] = (n + 1) / (n + 2)

    def loss(theta: np.ndarray) -> float:
        logits = theta[0] * scores + torch.as_tensor(theta[1:])
        return float(F.cross_entropy(logits, targets)) + float((theta[1:] ** 2).sum()) / (2 * n)

    best = minimize(loss, np.r_[1.0, np.zeros(C)], method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose([slope, *offset], best, atol=1e-3)
    assert loss(np.r_[slope, offset.numpy()]) <= loss(best) + 1e-9


def test_a_weight_is_a_number_of_rows_and_a_row_of_weight_zero_is_absent() -> None:
    scores, labels, _ = two_classes(60)
    counts = torch.arange(60) % 3
    repeated = fit_calibration(scores.repeat_interleave(counts, dim=0), labels.repeat_interleave(counts))
    # smoothing counts rows: the same number of rows in total
    weighted = fit_calibration(scores[counts > 0], labels[counts > 0], counts[counts > 0].double())
    absent = fit_calibration(scores, labels, counts.double())
    assert weighted.slope == pytest.approx(absent.slope, rel=1e-9)
    assert weighted.slope == pytest.approx(repeated.slope, rel=0.1)
    assert fit_calibration(scores, labels).slope != pytest.approx(absent.slope, rel=0.02)


@pytest.mark.parametrize("n", [2, 10, 1000])
def test_separable_scores_give_finite_probabilities_that_grow_with_the_rows(n: int) -> None:
    labels = torch.arange(n) % 2
    scores = (0.3 + 0.4 * labels)[:, None].double()
    slope, offset = fit_calibration(scores, labels)
    p = (slope * scores + offset).sigmoid()[labels == 1]
    torch.testing.assert_close(p, torch.full_like(p, (n / 2 + 1) / (n / 2 + 2)), atol=1e-6, rtol=0)


def test_separable_scores_of_several_classes() -> None:
    labels = torch.arange(90) % 3
    scores = 0.2 + 0.4 * F.one_hot(labels).double()
    slope, offset = fit_calibration(scores, labels)
    p = (slope * scores + offset).softmax(dim=1)[torch.arange(90), labels]
    torch.testing.assert_close(p, torch.full_like(p, 91 / 92), atol=1e-6, rtol=0)


def test_one_class_only_keeps_the_default_slope_and_predicts_that_class() -> None:
    scores, _, _ = two_classes(50)
    slope, offset = fit_calibration(scores, torch.zeros(50, dtype=torch.long))
    assert slope == DEFAULT_SLOPE
    assert float((slope * scores + offset).sigmoid().mean()) == pytest.approx(1 / 52, rel=1e-6)


def test_a_class_without_rows_is_rare_not_impossible() -> None:
    scores, labels = classes(200, 4)
    kept = labels != 3
    slope, offset = fit_calibration(scores[kept], labels[kept])
    p = (slope * scores[kept] + offset).softmax(dim=1)[:, 3]
    assert 0 < float(p.mean()) < 0.05


@pytest.mark.parametrize("t", [1, 3])
def test_equal_scores_keep_the_default_slope(t: int) -> None:
    labels = torch.tensor([0, 0, 0, 1])
    slope, offset = fit_calibration(torch.full((4, t), 0.4), labels)
    assert slope == DEFAULT_SLOPE
    if t == 1:  # smoothed: three of 1/5 and one of 2/3
        assert float((slope * 0.4 + offset).sigmoid()) == pytest.approx((3 / 5 + 2 / 3) / 4, rel=1e-6)


@pytest.mark.parametrize("t", [1, 3])
def test_no_rows(t: int) -> None:
    slope, offset = fit_calibration(torch.empty(0, t), torch.empty(0, dtype=torch.long))
    assert (slope, offset.tolist()) == (4.0, [-2.0] if t == 1 else [0.0] * 3)


def test_scores_that_contradict_the_labels_keep_their_order_and_give_the_shares_of_classes() -> None:
    labels = (torch.arange(200) % 4 == 0).long()
    mean = (labels.sum() - labels).double() / 199  # the leave-one-out mean
    slope, offset = fit_calibration(mean[:, None], labels)
    assert slope == MIN_SLOPE
    p = (slope * mean + offset).sigmoid()
    torch.testing.assert_close(p, torch.full_like(p, 0.255), atol=0.01, rtol=0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("C", [2, 5])
def test_miscalibrated_scores_become_calibrated(C: int, seed: int) -> None:
    if C == 2:
        scores, labels, _ = two_classes(4000, seed=seed)
        before = torch.cat([1 - scores, scores], dim=1)
    else:
        scores, labels = classes(4000, C, seed=seed)
        before = scores.clamp_min(1e-3) / scores.clamp_min(1e-3).sum(dim=1, keepdim=True)
    slope, offset = fit_calibration(scores[:2000], labels[:2000])
    logits = slope * scores + offset
    after = torch.cat([-logits, logits], dim=1).sigmoid() if C == 2 else logits.softmax(dim=1)
    error = calibration_error(after[2000:], labels[2000:])
    # binomial noise of ten bins of 200 rows is about 0.03
    assert error < 0.05
    assert error < 0.5 * calibration_error(before[2000:], labels[2000:])


def calibration_error(p: Tensor, labels: Tensor) -> float:
    """Mean gap of confidence and accuracy over ten bins with equally many rows."""
    confidence, predicted = p.max(dim=1)
    right = (predicted == labels).double()
    bins = confidence.argsort().chunk(10)
    return sum(abs(float(confidence[rows].mean() - right[rows].mean())) for rows in bins) / 10


@pytest.mark.parametrize(
    ("scores", "labels", "weight", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3), None, r"scores must have shape .* got \(3, 2\)"),
        (torch.zeros(3, 1), torch.zeros(2), None, r"labels and weight must have shape \[3\]"),
        (torch.zeros(3, 1), torch.tensor([0, 1, 2]), None, "labels must lie in .* 2"),
        (torch.full((3, 1), math.nan), torch.zeros(3), None, "scores must be finite"),
        (torch.zeros(3, 1), torch.zeros(3), -torch.ones(3), "weight must be non-negative"),
    ],
)
def test_errors_name_the_argument(scores: Tensor, labels: Tensor, weight: Tensor | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_calibration(scores, labels, weight)
