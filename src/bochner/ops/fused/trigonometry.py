"""Cosines and sines inside a Triton kernel."""

# mypy: ignore-errors

from __future__ import annotations

import math

from bochner.ops.fused.compiler import jit, tl

# sin(2 pi u) for |u| <= 1/4 as u (c0 + c1 u^2 + ..), with an error of at most 6e-7: below that of float32 angles.
SERIES = (6.283164044062762, -41.33714233293181, 81.34076742677588, -70.99341772580206)
TURNS = 1 / (2 * math.pi)


def scaled_series(amplitude: float) -> tuple[float, ...]:
    """The coefficients for amplitude sin(2 pi u); the factor then costs nothing."""
    return tuple(amplitude * c for c in SERIES)


@jit
def scaled_cosine(turns, c0, c1, c2, c3):
    """a cos(2 pi turns), with the amplitude a in the coefficients c0 to c3.

    Ten operations without a branch. Adding and subtracting 1.5 * 2^23 rounds to the nearest integer, at four times the
    rate of the rounding instruction.
    """
    turns = turns - ((turns + 12582912.0) - 12582912.0)
    u = 0.25 - tl.abs(turns)
    square = u * u
    return u * (c0 + square * (c1 + square * (c2 + square * c3)))


@jit
def quick_cosine(angles, INTERPRETED: tl.constexpr):
    """cos(angles) by the special function unit, with an error of at most 2^-20: enough for 16-bit results."""
    if INTERPRETED:
        return tl.cos(angles)
    return tl.inline_asm_elementwise(
        "cos.approx.ftz.f32 $0, $1;", "=f,f", [angles], dtype=tl.float32, is_pure=True, pack=1
    )


@jit
def quick_sine(angles, INTERPRETED: tl.constexpr):
    """sin(angles) in the same way."""
    if INTERPRETED:
        return tl.sin(angles)
    return tl.inline_asm_elementwise(
        "sin.approx.ftz.f32 $0, $1;", "=f,f", [angles], dtype=tl.float32, is_pure=True, pack=1
    )
