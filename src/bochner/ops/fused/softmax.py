"""Softmax, its derivative and the terms of the losses, reading each row of scores once."""

# mypy: ignore-errors

from __future__ import annotations

import torch

from bochner.ops.fused.primitives import jit, next_power_of_2, tl
from bochner.ops.step import SoftmaxRows


@jit
def _softmax_rows(
    scores, y, bias, weight, residual, log_p, entropy, wrong, score_stride, residual_stride, num_classes, scale,
    BIAS: tl.constexpr, WEIGHT: tl.constexpr, TERMS: tl.constexpr, CLASSES: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CLASSES)
    inside = c < num_classes
    s = tl.load(scores + row * score_stride + c, mask=inside, other=float("-inf")).to(tl.float32)
    if BIAS:
        s += tl.load(bias + c, mask=inside, other=0.0)
    if WEIGHT:
        scale *= tl.load(weight + row)
    label = tl.load(y + row)
    shifted = tl.where(inside, s - tl.max(s, axis=0), 0.0)
    e = tl.where(inside, tl.exp(shifted), 0.0)
    total = tl.sum(e, axis=0)
    p = e * (1.0 / total)
    tl.store(residual + row * residual_stride + c, scale * tl.where(c == label, p - 1.0, p), mask=inside)
    if TERMS:
        log_total = tl.log(total)
        tl.store(log_p + row, tl.sum(tl.where(c == label, shifted, 0.0), axis=0) - log_total)
        tl.store(entropy + row, log_total - tl.sum(p * shifted, axis=0))
        tl.store(wrong + row, (tl.argmax(s, axis=0) != label).to(tl.float32))


def softmax_rows(scores, y, *, bias=None, scale=1.0, weight=None, out=None) -> SoftmaxRows:
    n, C = scores.shape
    residual = scores.new_empty(n, C, dtype=torch.float32) if out is None else out
    terms = scores.new_empty(3, n, dtype=torch.float32)
    _write(scores, y, bias, scale, weight, residual, terms)
    return SoftmaxRows(residual, *terms)


def softmax_residual(scores, y, *, bias, scale, weight=None, out) -> None:
    _write(scores, y, bias, scale, weight, out, None)


def _write(scores, y, bias, scale, weight, residual, terms) -> None:
    n, C = scores.shape
    log_p, entropy, wrong = (residual, residual, residual) if terms is None else terms
    _softmax_rows[(n,)](
        scores, y, scores if bias is None else bias, scores if weight is None else weight, residual, log_p, entropy,
        wrong, scores.stride(0), residual.stride(0), C, scale, BIAS=bias is not None, WEIGHT=weight is not None,
        TERMS=terms is not None, CLASSES=next_power_of_2(C), num_warps=min(8, max(1, next_power_of_2(C) // 256)),
    )  # fmt: skip
