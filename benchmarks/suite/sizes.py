"""The sizes of the measurements."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Sizes:
    """The defaults are those of the published page."""

    device: torch.device
    repeats: int = 7
    slow_repeats: int = 3
    ceiling: int | None = None  # rows of the product; None: as many as the device needs
    step_features: int | None = 16_384  # None: the numbers of the papers, for a GPU
    batches: tuple[int, ...] = (256, 1024)
    step_rows: int = 2048  # of consecutive steps that are timed together
    wide_rows: int = 512  # the same for BN-50's shape, batches of 256
    prediction_features: int = 16_384
    frames: int = 300
    selection_rounds: int = 3
    selection_rows: int = 2048
    points: int = 20_000
    inputs: int = 50
    landmarks: int = 1000
    transform_rows: int = 4096
    transform_width: int = 4096
    factor_points: int = 6000
    factor_rank: int = 100
    ridge_points: int = 2000
    ridge_rank: int = 300
    product_points: int = 4000


def full(device: torch.device) -> Sizes:
    return Sizes(device) if device.type == "cpu" else Sizes(device, step_features=None)


def quick(device: torch.device) -> Sizes:
    """Sizes of a smoke test, which does not measure speed."""
    return Sizes(
        device,
        repeats=2,
        slow_repeats=2,
        ceiling=128,
        step_features=256,
        batches=(256,),
        step_rows=512,
        wide_rows=256,
        prediction_features=256,
        frames=20,
        selection_rounds=2,
        selection_rows=512,
        points=300,
        inputs=6,
        landmarks=30,
        transform_rows=16,
        transform_width=128,
        factor_points=300,
        factor_rank=10,
        ridge_points=200,
        ridge_rank=50,
        product_points=200,
    )
