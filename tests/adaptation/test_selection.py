"""Random feature selection: counts, statistics, and selected features."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator

from bochner.adaptation.selection import (
    Selection,
    chance_survival,
    frequency_norms,
    input_weights,
    random_batches,
    select_features,
)
from bochner.data import ArraySource
from bochner.features import FourierMap
from bochner.kernels import Gaussian, Laplacian, SparseGaussian
from bochner.models.heads import BottleneckHead, FeatureModel, LinearHead
from bochner.solvers import fused, step
from bochner.solvers.fused import FusedSteps
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate

NUM_INPUTS, USEFUL = 20, 3


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def data(count: int = 3000) -> tuple[ArraySource, ArraySource]:
    """Only the first three of twenty inputs matter."""
    X = torch.randn(count, NUM_INPUTS, generator=generator())
    y = (torch.sin(2 * X[:, :USEFUL]).sum(dim=1) > 0).long()
    return ArraySource(X[500:], y[500:]), ArraySource(X[:500], y[:500])


def draw_for(kernel, *, projection: str = "iid", form: str = "cosine"):
    def draw(num_features: int, generator: Generator) -> FourierMap:
        return FourierMap.draw(
            kernel,
            num_inputs=NUM_INPUTS,
            num_features=num_features,
            projection=projection,
            form=form,
            generator=generator,
        )

    return draw


def linear(num_features: int, generator: Generator) -> LinearHead:
    return LinearHead.zeros(num_features=num_features, num_outputs=2)


def bottleneck(num_features: int, generator: Generator) -> BottleneckHead:
    return BottleneckHead.glorot(num_features=num_features, num_outputs=2, rank=2, generator=generator)


SETTINGS = SGDSettings(learning_rate=16.0, batch_size=64)
SPARSE = SparseGaussian(subset_size=2, bandwidth=1.0)


@pytest.mark.parametrize("head", [linear, bottleneck])
@pytest.mark.parametrize(
    ("kernel", "projection", "form"),
    [
        (SPARSE, "sparse", "cosine"),
        (SPARSE, "sparse", "paired"),
        (Laplacian(bandwidth=10.0), "iid", "cosine"),
        (Gaussian(bandwidth=4.0), "orthogonal", "paired"),
        (Gaussian(bandwidth=4.0, scale=torch.linspace(0.5, 1.5, NUM_INPUTS)), "hadamard3", "cosine"),
    ],
)
def test_counts_and_kinds(kernel, projection: str, form: str, head) -> None:
    source, _ = data(1000)
    T, D = 5, 40
    chosen = select_features(
        draw_for(kernel, projection=projection, form=form),
        head,
        source,
        SETTINGS,
        num_features=D,
        rounds=T,
        rows_per_round=200,
        generator=generator(),
        verbose=False,
    )
    P = D if form == "cosine" else D // 2
    assert chosen.feature_map.num_features == D
    assert chosen.feature_map.form == form
    assert [len(births) for births in chosen.kept] == [P * t // T for t in range(1, T)]
    assert sum(chosen.drawn) == P * (T + 1) // 2  # D (T + 1) / 2 features in all
    assert len(chosen.births) == P
    assert (chosen.births == T).sum() == P - P * (T - 1) // T  # what the last round only draws
    survival = chosen.survival()
    assert len(survival) == T - 1
    assert survival[-1] == 1
    assert ((survival >= 0) & (survival <= 1)).all()


def test_chance_survival_is_the_formula() -> None:
    T = 6
    expected = [math.factorial(T) / (math.factorial(t) * T ** (T - t)) for t in range(1, T)]
    torch.testing.assert_close(chance_survival(T), torch.tensor(expected, dtype=torch.float64))


def test_selection_finds_the_useful_inputs_and_lowers_the_loss() -> None:
    source, heldout = data()
    draw = draw_for(SPARSE, projection="sparse")
    losses = {"random": [], "selected": []}
    for seed in range(2):
        chosen = select_features(
            draw,
            linear,
            source,
            SETTINGS,
            num_features=160,
            rounds=10,
            rows_per_round=2500,
            generator=generator(seed),
            verbose=False,
        )
        early = slice(0, 4)  # after later rounds few features are lost, by selection or by chance
        assert (chosen.survival()[early] > 3 * chance_survival(10)[early]).all()
        kept = chosen.feature_map.take((chosen.births < 10).nonzero().squeeze(1))
        weights = input_weights(kept)
        assert weights[:USEFUL].min() > 2 * weights[USEFUL:].mean()
        for name, z in (("random", draw(160, generator(seed))), ("selected", chosen.feature_map)):
            m = FeatureModel(z, linear(160, generator()))
            train(m, source, heldout, SGDSettings(batch_size=64, max_epochs=8), verbose=False)
            losses[name].append(evaluate(m, heldout, loss="softmax").summary()["ce"])
    assert sum(losses["selected"]) < 0.9 * sum(losses["random"])


def test_norms_of_pairs_join_sine_and_cosine() -> None:
    z = draw_for(Gaussian(), form="paired")(6, generator())
    head = LinearHead(torch.arange(12.0).reshape(2, 6), torch.zeros(2))
    W = head.weights.detach().T
    expected = torch.stack([(W[j].square().sum() + W[j + 3].square().sum()).sqrt() for j in range(3)])
    torch.testing.assert_close(frequency_norms(FeatureModel(z, head)), expected)


def test_input_weights_with_and_without_the_largest() -> None:
    z = draw_for(Laplacian())(200, generator())
    W = z.projection.frequencies.abs()
    torch.testing.assert_close(input_weights(z), W.sum(dim=1) / W.sum(dim=1).mean())
    dropped = W.sum(dim=1) - W.max(dim=1).values
    torch.testing.assert_close(input_weights(z, drop_largest=True), dropped / dropped.mean())


@pytest.mark.parametrize("form", ["paired", "cosine"])
@pytest.mark.parametrize(
    ("kernel", "projection"),
    [
        (Gaussian(bandwidth=4.0, scale=torch.linspace(0.5, 1.5, NUM_INPUTS)), "hadamard3"),
        (Gaussian(bandwidth=4.0), "fastfood"),
        (Gaussian(bandwidth=4.0), "circulant"),
        (SPARSE, "sparse"),
        (Gaussian(bandwidth=4.0, metric=torch.eye(NUM_INPUTS) + 0.1), "iid"),
    ],
)
def test_take_and_join_keep_each_frequency(kernel, projection: str, form: str) -> None:
    draw = draw_for(kernel, projection=projection, form=form)
    z = draw(24, generator())
    order = torch.randperm(z.num_frequencies, generator=generator(1))
    half = z.num_frequencies // 2
    again = z.take(order[:half]).join(z.take(order[half:]))
    X = torch.randn(5, NUM_INPUTS, generator=generator(2))
    columns = order if form == "cosine" else torch.cat([order, order + z.num_frequencies])
    torch.testing.assert_close(again(X), z(X)[:, columns], rtol=1e-4, atol=1e-5)


def test_survival_counts_what_reaches_the_end() -> None:
    kept = [torch.tensor([1, 1]), torch.tensor([1, 1, 2, 2]), torch.tensor([1, 2, 2, 3, 3, 3])]
    z = draw_for(Gaussian())(8, generator())
    survival = Selection(z, torch.tensor([1, 2, 2, 3, 3, 3, 4, 4]), [8, 6, 4, 2], kept).survival()
    torch.testing.assert_close(survival, torch.tensor([1 / 2, 3 / 4, 1.0], dtype=torch.float64))


def test_one_round_only_draws() -> None:
    source, _ = data(1000)
    chosen = select_features(
        draw_for(SPARSE), linear, source, SETTINGS, num_features=8, rounds=1, generator=generator(4), verbose=False
    )
    expected = draw_for(SPARSE)(8, generator(4))
    torch.testing.assert_close(chosen.feature_map.frequencies(), expected.frequencies())
    assert len(chosen.survival()) == 0


def test_random_batches_lap_and_differ_by_pass() -> None:
    source = ArraySource(torch.arange(10.0)[:, None], torch.arange(10))
    settings = SGDSettings(batch_size=5)
    first, again, other = (
        [block.y.tolist() for block in random_batches(source, settings, 28, 5, pass_number=number)]
        for number in (1, 1, 2)
    )
    assert first == again != other
    assert len(first) == 6  # 28 rows take six batches of 5
    for lap in range(3):
        assert sorted(first[2 * lap] + first[2 * lap + 1]) == list(range(10))
    assert first[:2] != first[2:4]


def test_blocks_of_several_batches_hold_the_same_batches() -> None:
    """Batches of 4, 4 and 2 rows per repetition, two per block: a pass may end within a block or with a repetition."""
    source = ArraySource(torch.arange(10.0)[:, None], torch.arange(10))
    settings = SGDSettings(batch_size=4)
    for num_rows in (1, 8, 12, 25, 29):
        single = [block.y for block in random_batches(source, settings, num_rows, 4, pass_number=1)]
        several = [block.y for block in random_batches(source, settings, num_rows, 8, pass_number=1, prefetch=True)]
        again = [y.tolist() for ys in several for y in ys.split(4)]
        assert again == [y.tolist() for y in single]
        assert len(single) == -(-num_rows // 4)
        assert len(several) < len(single) or num_rows == 1


def selected(head, kernel) -> tuple[Selection, list[LinearHead | BottleneckHead]]:
    """A selection in float64, and the heads that its rounds trained."""
    source, _ = data(700)
    heads = []

    def draw(num_features: int, generator: Generator) -> FourierMap:
        return draw_for(kernel)(num_features, generator).double()

    def make_head(num_features: int, generator: Generator) -> LinearHead | BottleneckHead:
        heads.append(head(num_features, generator).double())
        return heads[-1]

    settings = {"num_features": 40, "rounds": 4, "rows_per_round": 600, "generator": generator(), "verbose": False}
    return select_features(draw, make_head, source, replace(SETTINGS, learning_rate=2.0), **settings), heads


def assert_same(found: tuple[Selection, list], wanted: tuple[Selection, list]) -> None:
    assert torch.equal(found[0].births, wanted[0].births)
    assert torch.equal(found[0].feature_map.frequencies(), wanted[0].feature_map.frequencies())
    for head, expected in zip(found[1], wanted[1], strict=True):
        for part, whole in zip(head.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(part, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("head", [linear, bottleneck])
def test_steps_by_columns_select_the_same(head, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repetition of 200 rows ends with a short batch, the pass within the third repetition."""
    wanted = selected(head, SPARSE)
    monkeypatch.setattr(fused, "MIN_COLUMNS", 1)
    monkeypatch.setattr(step, "take_steps", None)
    assert_same(selected(head, SPARSE), wanted)


def test_superbatches_select_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU."""
    wanted = selected(linear, SPARSE)
    monkeypatch.setattr(
        step, "fused_steps", lambda model, settings, _: FusedSteps(model, replace(settings, precision="tf32"))
    )
    monkeypatch.setattr(step, "take_steps", None)
    assert_same(selected(linear, SPARSE), wanted)


def test_bad_arguments() -> None:
    source, _ = data(1000)
    arguments = {"num_features": 8, "generator": generator(), "verbose": False}
    with pytest.raises(ValueError, match="rounds must be an integer of at least 1, got 0"):
        select_features(draw_for(SPARSE), linear, source, SETTINGS, rounds=0, **arguments)
    with pytest.raises(ValueError, match=r"rounds must be at most 8, the number of frequencies.* Got 9"):
        select_features(draw_for(SPARSE), linear, source, SETTINGS, rounds=9, **arguments)
    with pytest.raises(ValueError, match=r"learning_rate must be a number for selection"):
        select_features(draw_for(SPARSE), linear, source, SGDSettings(), **arguments)
    with pytest.raises(ValueError, match=r"preconditioner_rank must be 0 for selection, got 4"):
        select_features(
            draw_for(SPARSE), linear, source, SGDSettings(learning_rate=1.0, preconditioner_rank=4), **arguments
        )
    with pytest.raises(FloatingPointError, match=r"selection diverged at learning_rate=1e\+38"):
        select_features(
            draw_for(SPARSE), linear, source, SGDSettings(learning_rate=1e38), rounds=2, rows_per_round=999, **arguments
        )
    with pytest.raises(ValueError, match="maps must have the same form, got 'paired' and 'cosine'"):
        draw_for(SPARSE, form="paired")(8, generator()).join(draw_for(SPARSE)(8, generator()))


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("head", [linear, bottleneck])
def test_stopped_after_a_round_it_resumes_bit_equal(head, tmp_path: Path) -> None:
    source, _ = data(700)
    options = {"num_features": 40, "rounds": 5, "rows_per_round": 300, "verbose": False}
    whole = select_features(draw_for(SPARSE), head, source, SETTINGS, **options, generator=generator())
    calls = iter(range(3))

    def stopping(num_features: int, generator: Generator) -> LinearHead | BottleneckHead:
        if next(calls, None) is None:
            raise StoppedError
        return head(num_features, generator)

    arguments = (source, SETTINGS)
    with pytest.raises(StoppedError):
        select_features(
            draw_for(SPARSE), stopping, *arguments, **options, generator=generator(), checkpoint_dir=tmp_path
        )
    heads = []

    def counting(num_features: int, generator: Generator) -> LinearHead | BottleneckHead:
        heads.append(head(num_features, generator))
        return heads[-1]

    resumed = select_features(
        draw_for(SPARSE), counting, *arguments, **options, generator=generator(), checkpoint_dir=tmp_path
    )
    assert len(heads) == 1  # the last of four rounds that train
    assert torch.equal(resumed.births, whole.births)
    assert resumed.drawn == whole.drawn
    assert torch.equal(resumed.survival(), whole.survival())
    assert torch.equal(resumed.feature_map.frequencies(), whole.feature_map.frequencies())
