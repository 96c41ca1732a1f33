"""The estimates compared with numbers computed by hand, and their text."""

from __future__ import annotations

import pytest

from benchmarks.scaling import (
    ASSUMED,
    BATCHES,
    BILLION,
    GPUS,
    MEASURED,
    ONE,
    Layout,
    all_reduce,
    layouts,
    page,
    plan,
    weights,
    wide_check,
)
from benchmarks.step_problem import BN50


def test_one_gpu_is_what_was_measured() -> None:
    found = plan(BN50, ONE, batch=256)
    assert found.step == pytest.approx(0.726e-3)
    assert found.traffic == pytest.approx(0.328e-3)
    assert found.compute == pytest.approx(0.398e-3)
    assert found.messages == 0
    assert MEASURED.flops == pytest.approx(1.28512e11 / 0.295e-3)  # 512 (100,000 * 2,360 + 15e6) operations
    assert MEASURED.bandwidth == pytest.approx(1.26e9 / 0.328e-3)  # 12 bytes of 105e6 weights
    assert wide_check() == pytest.approx(MEASURED.wide_step, rel=0.1)  # another shape, from which it was not derived


def test_messages_by_hand() -> None:
    assert all_reduce(1e9, 1, 1) == 0
    assert all_reduce(360e6, 8, 1) == pytest.approx(2 * 7 / 8 * 1e-3 + 6 * 3e-6)  # 360 GB/s reached
    assert all_reduce(40e6, 1, 8) == pytest.approx(2 * 7 / 8 * 1e-3 + 6 * 8e-6)  # 40 GB/s reached
    both = 2 * 7 / 8 * 1e-3 + 2 * 63 / 64 * 45e6 / 40e9 + 6 * 3e-6 + 12 * 8e-6
    assert all_reduce(360e6, 8, 64) == pytest.approx(both)


@pytest.mark.parametrize(
    ("layout", "along_features", "along_data"),
    [
        (Layout("", 1, 64), (1, 1), (8, 8)),
        (Layout("", 64, 1), (8, 8), (1, 1)),
        (Layout("", 2, 32), (2, 1), (4, 8)),
        (Layout("", 16, 32), (8, 2), (1, 32)),
        (Layout("", 2, 4), (2, 1), (4, 1)),
    ],
)
def test_neighbours_hold_parts_of_one_model(
    layout: Layout, along_features: tuple[int, int], along_data: tuple[int, int]
) -> None:
    assert (layout.along_features, layout.along_data) == (along_features, along_data)


def test_a_mesh_by_hand() -> None:
    found = plan(BN50, Layout("mesh", 4, 2), batch=256)  # 128 rows, 25,000 features, 30e6 weights
    assert weights(BN50, 4) == 30_000_000
    flops = 2 * 128 * (25_000 * 2_360 + 15e6)
    assert found.compute == pytest.approx(flops / MEASURED.flops + 51.5e-6)
    assert found.traffic == pytest.approx(20 * 30e6 / MEASURED.bandwidth)
    scores, gradients = 1.5 * 512_000 / 360e9 + 12e-6, 120e6 / 360e9 + 6e-6
    assert found.messages == pytest.approx(scores + gradients)
    assert found.reading == pytest.approx(256 * 1440 / 5e9)
    counted = 6 * 25_000 * 360 + 10 * 30e6 + 128 * (2 * 25_000 + 8 * 6_000)
    wide = 6 * 400_000 * 360 + 6 * 405e6 + 2048 * (2 * 400_000 + 8 * 6_000)
    assert found.memory == pytest.approx(counted * 6.1 * 2**30 / wide)
    assert found.epoch == pytest.approx(found.step * 62_500)


def test_bottlenecks() -> None:
    by_rows, by_features, _ = layouts(BN50, 64, batch=256)
    assert (by_rows.bottleneck, by_features.bottleneck) == ("all-reduce", "compute")
    assert plan(BILLION, ONE, batch=256).bottleneck == "HBM"
    assert plan(BILLION.with_features(100_000_000), ONE, batch=256).bottleneck == "memory"
    assert layouts(BN50, 512, batch=16_384)[2].bottleneck == "reading"


def test_the_mesh_is_the_fastest_grid_between() -> None:
    grids = [plan(BN50, Layout("mesh", parts, 64 // parts), batch=16_384) for parts in (2, 4, 8, 16, 32)]
    assert layouts(BN50, 64, batch=16_384)[2].step == min(grid.step for grid in grids)


def test_everything_on_the_page_fits() -> None:
    found = [
        each for shape in (BN50, BILLION) for batch in BATCHES for n in GPUS for each in layouts(shape, n, batch=batch)
    ]
    assert len(found) == 36
    assert max(each.memory for each in found) < ASSUMED.memory


def test_the_text_names_the_fastest_layout_of_every_table() -> None:
    assert page().count("**Fastest:**") == len((BN50, BILLION)) * len(BATCHES)
