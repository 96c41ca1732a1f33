"""Steps without autograd equal the steps with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.data.blocks import Block
from bochner.features import FourierMap
from bochner.kernels import Gaussian, SparseGaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.ops import step as step_operations
from bochner.solvers import fused, replay, step
from bochner.solvers.fused import ColumnSteps, FusedSteps, fused_steps, is_plain
from bochner.solvers.optimizers import SGDSettings, make_optimizer
from bochner.solvers.preconditioner import fit_preconditioner
from bochner.solvers.sgd import train
from bochner.solvers.step import take_step
from tests.solvers.runs import generator, model, rings, sources, weights
from tests.solvers.test_sgd import StoppedError, StoppingSource

SETTINGS = SGDSettings(learning_rate=4.0, batch_size=32, max_epochs=2)
KERNELS = [
    ("iid", Gaussian(bandwidth=1.0)),
    ("sparse", SparseGaussian(bandwidth=1.0, subset_size=1)),
    ("hadamard2", Gaussian(bandwidth=1.0)),
]


def both(fast: FeatureModel, slow: FeatureModel, settings: SGDSettings, *, weighted: bool = False) -> FusedSteps:
    """An epoch of superbatches for `fast`, of single steps for `slow`."""
    steps, source, rate = FusedSteps(fast, settings), sources()[0], settings.learning_rate
    optimizer = make_optimizer(slow, settings, rate)
    rows = weigh if weighted else lambda block: block
    for block in batches(source, batch_size=settings.batch_size, seed=0, epoch=0):
        take_step(slow, optimizer, rows(block), settings)
    for block in batches(source, batch_size=steps.rows, seed=0, epoch=0):
        steps.take(rows(block), rate=rate)
    return steps


def weigh(block: Block) -> Block:
    return Block(block.X, block.y, 1 + block.X[:, 0].abs())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rank", [None, 2])
@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("tf32", 1e-5), ("bf16", 2e-2)])
def test_steps_are_those_of_autograd(precision: str, tolerance: float, rank: int | None, weighted: bool) -> None:
    fast, slow = model(rank=rank), model(rank=rank)
    rate = 4.0 if rank is None else 0.25
    steps = both(fast, slow, replace(SETTINGS, precision=precision, learning_rate=rate), weighted=weighted)
    assert steps.minibatches > 1 or precision == "float32"
    for found, wanted in zip(weights(fast), weights(slow), strict=True):
        assert (found - wanted).norm() < tolerance * wanted.norm()
    assert all(copy.dtype == torch.bfloat16 for copy in steps.copies)
    assert len(steps.copies) == (0 if precision != "bf16" else 1 if rank is None else 2)


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-5), ("bf16", 2e-2)])
@pytest.mark.parametrize("form", ["cosine", "paired"])
@pytest.mark.parametrize(("projection", "kernel"), KERNELS)
def test_every_map(projection: str, kernel: Gaussian, form: str, precision: str, tolerance: float) -> None:
    z = FourierMap.draw(kernel, num_inputs=2, num_features=64, projection=projection, form=form, generator=generator())
    fast, slow = (FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=3)) for _ in range(2))
    both(fast, slow, replace(SETTINGS, precision=precision))
    found, wanted = weights(fast)[0], weights(slow)[0]
    assert (found - wanted).norm() < tolerance * wanted.norm()


def test_the_loop_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU: the same history, epochs and rows."""
    fast, slow = model(), model()
    settings = replace(SETTINGS, precision="tf32")
    wanted = train(slow, *sources(), settings, verbose=False)
    monkeypatch.setattr(step, "fused_steps", FusedSteps)
    found = train(fast, *sources(), settings, verbose=False)
    torch.testing.assert_close(weights(fast)[0], weights(slow)[0], rtol=1e-4, atol=1e-5)
    assert [record["decision"] for record in found] == [record["decision"] for record in wanted]


@pytest.mark.parametrize("reads", [20, 83])  # within the first epoch and within the second
def test_stopped_between_superbatches_it_resumes_bit_equal(
    reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "fused_steps", FusedSteps)
    monkeypatch.setattr(fused, "FEATURE_ROWS", 64)
    X, y = rings()
    settings = replace(SETTINGS, precision="bf16")
    whole, resumed, heldout = model(), model(), ArraySource(X[:100], y[:100])
    source, stopping = (kind(X[100:], y[100:], shard_rows=8) for kind in (ArraySource, StoppingSource))
    expected = train(whole, source, heldout, settings, verbose=False)
    stopping.reads_left = reads
    with pytest.raises(StoppedError):
        train(model(), stopping, heldout, settings, checkpoint_dir=tmp_path, checkpoint_seconds=0.0, verbose=False)
    assert train(resumed, source, heldout, settings, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))


@pytest.mark.parametrize(("precision", "tolerance"), [("float32", 1e-4), ("tf32", 1e-4), ("bf16", 3e-2)])
@pytest.mark.parametrize("rank", [None, 2])
def test_preconditioned_steps_are_those_of_the_preconditioner(
    rank: int | None, precision: str, tolerance: float
) -> None:
    fast, slow = model(rank=rank), model(rank=rank)
    settings = replace(SETTINGS, precision=precision, preconditioner_rank=6)
    found, wanted = (fit_preconditioner(part, sources()[0], settings) for part in (fast, slow))
    rate = 0.5 * wanted.rate
    steps, optimizer = FusedSteps(fast, settings, found), make_optimizer(slow, settings, rate)
    for block in batches(sources()[0], batch_size=settings.batch_size, seed=0, epoch=0):
        take_step(slow, optimizer, block, settings, wanted)
    for block in batches(sources()[0], batch_size=steps.rows, seed=0, epoch=0):
        steps.take(block, rate=rate)
    for one, other in zip(weights(fast), weights(slow), strict=True):
        assert (one - other).norm() < tolerance * other.norm()


def test_the_mean_of_an_epoch_counts_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last superbatch is short: each iterate is weighted by its number of steps."""
    monkeypatch.setattr(step, "fused_steps", FusedSteps)
    monkeypatch.setattr(fused, "FEATURE_ROWS", 64)
    settings, ends = replace(SETTINGS, precision="tf32", average=True, max_epochs=1), []
    found, source = model(), sources()[0]
    train(found, *sources(), settings, verbose=False)
    steps = FusedSteps(single := model(), replace(settings, average=False))
    for block in batches(source, batch_size=steps.rows, seed=settings.seed, epoch=0):
        steps.take(block, rate=settings.learning_rate)
        ends.append((-(-len(block.y) // settings.batch_size), weights(single)[0].clone()))
    wanted = sum(count * end for count, end in ends) / sum(count for count, _ in ends)
    torch.testing.assert_close(weights(found)[0], wanted, rtol=1e-4, atol=1e-5)


def test_only_sgd_of_the_softmax_loss_is_fused() -> None:
    assert is_plain(SETTINGS)
    for change in ({"optimizer": "adam"}, {"alpha": 1e-3}, {"loss": "logistic"}):
        assert not is_plain(replace(SETTINGS, **change))


def test_small_steps_on_a_cpu_are_the_ordinary_ones() -> None:
    assert fused_steps(model(), SETTINGS) is None


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if 64 features were many, in tiles of ten columns."""
    monkeypatch.setattr(fused, "MIN_COLUMNS", 64 * 32)
    monkeypatch.setattr(step_operations, "CACHED_FEATURES", 320)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)


def test_which_steps_on_a_cpu_are_made_by_columns(columns: None) -> None:
    assert isinstance(fused_steps(model(), SETTINGS), ColumnSteps)
    z = FourierMap.draw(
        Gaussian(bandwidth=1.0), num_inputs=2, num_features=64, projection="hadamard2", generator=generator()
    )
    assert fused_steps(FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=3)), SETTINGS) is None
    for change in ({"alpha": 1e-3}, {"batch_size": 16}, {"batch_size": 2**20}):
        assert fused_steps(model(), replace(SETTINGS, **change)) is None


@pytest.mark.parametrize("rank", [None, 2])
def test_steps_by_columns_are_those_of_autograd(columns: None, rank: int | None) -> None:
    fast, slow = model(rank=rank).double(), model(rank=rank).double()
    settings = replace(SETTINGS, learning_rate=4.0 if rank is None else 0.25)
    steps, optimizer = fused_steps(fast, settings), make_optimizer(slow, settings, settings.learning_rate)
    assert isinstance(steps, ColumnSteps)
    for block in map(weigh, batches(sources()[0], batch_size=steps.rows, seed=0, epoch=0)):  # the last one is short
        take_step(slow, optimizer, block, settings)
        steps.take(block, rate=settings.learning_rate)
    for found, wanted in zip(weights(fast), weights(slow), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("form", ["cosine", "paired"])
def test_steps_by_columns_in_bfloat16(columns: None, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With units for bfloat16 the steps are near those in float32, without them they are the same."""
    kernel, settings = Gaussian(bandwidth=1.0), replace(SETTINGS, precision="bf16")
    z = FourierMap.draw(kernel, num_inputs=2, num_features=64, form=form, projection="iid", generator=generator())
    results = []
    for has_units, part in ((True, settings), (False, settings), (False, SETTINGS)):
        monkeypatch.setattr(fused, "has_bf16_units", lambda device, has_units=has_units: has_units)
        found = FeatureModel(z, LinearHead.zeros(num_features=64, num_outputs=3))
        steps = fused_steps(found, part)
        for block in batches(sources()[0], batch_size=steps.rows, seed=0, epoch=0):
            steps.take(block, rate=4.0)
        results.append(weights(found)[0])
    short, without, wanted = results
    assert torch.equal(without, wanted)
    assert 1e-5 < (short - wanted).norm() / wanted.norm() < 2e-2


@pytest.mark.parametrize("has_units", [False, True])
def test_products_on_a_cpu_are_in_bfloat16_only_with_units_for_it(
    has_units: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step, "has_bf16_units", lambda device: has_units)
    with step.compute_precision("bf16", torch.device("cpu")):
        product = torch.ones(2, 2) @ torch.ones(2, 2)
    assert product.dtype == (torch.bfloat16 if has_units else torch.float32)


def test_the_loop_takes_columns_and_resumes_bit_equal(columns: None, tmp_path: Path) -> None:
    X, y = rings()
    whole, resumed, heldout = model(), model(), ArraySource(X[:100], y[:100])
    source, stopping = (kind(X[100:], y[100:], shard_rows=8) for kind in (ArraySource, StoppingSource))
    expected = train(whole, source, heldout, SETTINGS, verbose=False)
    stopping.reads_left = 20
    with pytest.raises(StoppedError):
        train(model(), stopping, heldout, SETTINGS, checkpoint_dir=tmp_path, checkpoint_seconds=0.0, verbose=False)
    assert train(resumed, source, heldout, SETTINGS, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))
    assert expected[-1]["ce"] < 0.5


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "tf32", "bf16"])
@pytest.mark.parametrize("rank", [None, 2])
def test_a_gpu_learns_the_same(rank: int | None, precision: str) -> None:
    settings = replace(SETTINGS, learning_rate=4.0 if rank is None else 0.25, max_epochs=3)
    found, wanted = (model(num_features=256, rank=rank) for _ in range(2))
    on_gpu = train(found.cuda(), *sources(), replace(settings, precision=precision), verbose=False)
    on_cpu = train(wanted, *sources(), settings, verbose=False)
    assert on_gpu[-1]["ce"] == pytest.approx(on_cpu[-1]["ce"], rel=5e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("rank", [None, 2])
def test_replayed_launches_take_the_same_steps(rank: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rate changes in between, and the last block is short."""
    found, wanted = (model(num_features=256, rank=rank).cuda() for _ in range(2))
    settings, blocks = replace(SETTINGS, precision="bf16"), list(batches(sources()[0], batch_size=64, seed=0, epoch=0))
    for patience, part in ((1, found), (10**9, wanted)):
        monkeypatch.setattr(replay, "MIN_CALLS", patience)
        steps = FusedSteps(part, settings)
        graphs = []
        for number, block in enumerate(blocks):
            steps.take(block, rate=0.5 if number < 4 else 0.25)
            graphs.append(steps._replay._graph is not None)
        assert any(graphs[:4]) == any(graphs[4:]) == (patience == 1)
    assert all(torch.equal(a, b) for a, b in zip(weights(found), weights(wanted), strict=True))


@pytest.mark.gpu
def test_a_hundred_models_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads train 25 models each in turns; each of them records its steps while the others go on."""
    monkeypatch.setattr(replay, "MIN_CALLS", 1)
    settings, rates = replace(SETTINGS, precision="bf16"), [0.1 * number for number in range(1, 6)]
    blocks = list(batches(sources()[0], batch_size=64, seed=0, epoch=0))[:6]

    def trained(count: int) -> list[list[Tensor]]:
        models = [model(num_features=256).cuda() for _ in range(count)]
        steps = [FusedSteps(part, settings) for part in models]
        for block in blocks:
            for number, each in enumerate(steps):
                each.take(block, rate=rates[number % 5])
        assert all((each._replay._graph is not None) == (replay.MIN_CALLS == 1) for each in steps)
        return [weights(part) for part in models]

    with ThreadPoolExecutor(4) as pool:
        results = [result for part in pool.map(trained, [25] * 4) for result in part]
    monkeypatch.setattr(replay, "MIN_CALLS", 10**9)
    expected = trained(5)
    for number, result in enumerate(results):
        assert all(torch.equal(a, b) for a, b in zip(result, expected[number % 5], strict=True))
