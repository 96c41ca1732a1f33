"""Heldout metrics that are shown, and those that may go with the token error rate."""

from __future__ import annotations

HELDOUT = ("ce", "ent", "erll", "err")
BETAS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
LAMBDAS = (0.0, 0.0001, 0.001, 0.01, 0.1, 1.0)
FRACTIONS = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)
METRICS = [f"erll:{x:g}" for x in BETAS] + [f"capped:{x:g}" for x in LAMBDAS] + [f"topk:{x:g}" for x in FRACTIONS]
