"""The training loop: it learns, follows its schedule, is the SGD of the papers, and resumes bit-equal."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from bochner import storage
from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.data.blocks import Block
from bochner.solvers import sgd
from bochner.solvers.learning_rate import find_rate
from bochner.solvers.optimizers import OPTIMIZERS, SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.step import evaluate
from tests.processes import kill_after, run_until_killed
from tests.solvers.runs import model, rings, sources, weights

SHORT = SGDSettings(learning_rate=16.0, batch_size=32, max_epochs=6)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_learns_with_every_optimizer(optimizer: str) -> None:
    train_source, heldout = sources()
    m = model()
    history = train(
        m, train_source, heldout, SGDSettings(optimizer=optimizer, batch_size=32, max_epochs=12), verbose=False
    )
    assert history[-1]["err"] < 0.12
    X, y = rings(500, seed=9)
    assert (m(X).argmax(dim=1) == y).double().mean() > 0.85


@pytest.mark.parametrize("criterion", ["ce", "erll:0.5", "capped:0.1", "topk:0.8", "err", "perplexity", "ent"])
def test_any_metric_drives_the_schedule(criterion: str) -> None:
    history = train(
        model(), *sources(), SGDSettings(learning_rate=16.0, criterion=criterion, max_epochs=5), verbose=False
    )
    assert all(criterion in record for record in history)


def test_bottleneck_logistic_and_squared() -> None:
    train_source, heldout = sources()
    deep = model(rank=2)
    history = train(deep, train_source, heldout, SGDSettings(batch_size=32, max_epochs=15), verbose=False)
    assert history[-1]["err"] < 0.2
    X, y = rings()
    binary = (y > 0).long()
    one = model(num_outputs=1)
    history = train(
        one,
        ArraySource(X[100:], binary[100:]),
        ArraySource(X[:100], binary[:100]),
        SGDSettings(loss="logistic", batch_size=32, max_epochs=10),
        verbose=False,
    )
    assert history[-1]["err"] < 0.1
    target = X.norm(dim=1)
    history = train(
        model(num_outputs=1),
        ArraySource(X[100:], target[100:]),
        ArraySource(X[:100], target[:100]),
        SGDSettings(loss="squared", criterion="mse", batch_size=32, max_epochs=10),
        verbose=False,
    )
    assert history[-1]["mse"] < 0.2 * float(target.var())


def test_a_step_is_the_formula_of_the_papers() -> None:
    """Theta <- Theta - rate z^T (p - onehot) / B, and the same for the bias, by hand in float64."""
    train_source, heldout = sources()
    m = model()
    settings = SGDSettings(learning_rate=2.0, batch_size=50, max_epochs=1, improvement=0.0)
    W, b = np.zeros((64, 3)), np.zeros(3)
    for block in batches(train_source, batch_size=50, seed=0, epoch=0):
        Z = m.feature_map(block.X).double().numpy()
        P = np.exp(Z @ W + b)
        P /= P.sum(axis=1, keepdims=True)
        P[np.arange(len(P)), block.y.numpy()] -= 1
        W, b = W - 2.0 * Z.T @ P / len(P), b - 2.0 * P.mean(axis=0)
    train(m, train_source, heldout, settings, verbose=False)
    np.testing.assert_allclose(m.head.weights.detach().numpy(), W.T, atol=1e-5)
    np.testing.assert_allclose(m.head.bias.detach().numpy(), b, atol=1e-5)


def test_l2_shrinks_weights_and_not_the_bias() -> None:
    free, bound = model(), model()
    train(free, *sources(), SHORT, verbose=False)
    train(bound, *sources(), SGDSettings(learning_rate=16.0, batch_size=32, max_epochs=6, alpha=1e-2), verbose=False)
    assert bound.head.weights.norm() < 0.7 * free.head.weights.norm()


def test_a_bad_epoch_is_reverted() -> None:
    """With an absurd rate every epoch is worse than the start: the model must be unchanged at the end."""
    m = model()
    with pytest.raises(FloatingPointError, match=r"never improved.* ce.*halved 3 times"):
        train(m, *sources(), SGDSettings(learning_rate=1e38, max_halvings=3), verbose=False)
    assert not m.head.weights.any()


def test_nan_halves_the_rate_and_training_continues() -> None:
    X, _ = rings()
    source = ArraySource(X[100:], X[100:].sum(dim=1))
    m = model(num_outputs=1)
    settings = SGDSettings(loss="squared", criterion="mse", learning_rate=1e5, max_halvings=30, max_epochs=40)
    history = train(m, source, ArraySource(X[:100], X[:100].sum(dim=1)), settings, verbose=False)
    assert history[0]["decision"] == "revert and halve"
    assert history[-1]["mse"] < 1.0


def test_rate_search_leaves_the_model_alone_and_finds_a_useful_rate() -> None:
    train_source, heldout = sources()
    m = model()
    rate = find_rate(m, train_source, heldout, SGDSettings(batch_size=32))
    assert not m.head.weights.any()
    assert 1 <= rate <= 1024
    losses = {}
    for candidate in (rate / 64, rate, rate * 64):
        trial = model()
        try:
            history = train(
                trial,
                train_source,
                heldout,
                SGDSettings(batch_size=32, learning_rate=candidate, max_epochs=1),
                verbose=False,
            )
            losses[candidate] = history[-1]["ce"]
        except FloatingPointError:
            losses[candidate] = np.inf
    assert losses[rate] == min(losses.values())


def test_same_seed_same_model_other_seed_another() -> None:
    def trained(seed: int) -> torch.Tensor:
        m = model()
        train(m, *sources(), SGDSettings(learning_rate=16.0, batch_size=32, max_epochs=2, seed=seed), verbose=False)
        return m.head.weights.detach()

    assert torch.equal(trained(0), trained(0))
    assert not torch.equal(trained(0), trained(1))


class StoppedError(Exception):
    pass


class StoppingSource(ArraySource):
    """Fails after a number of reads, as a machine may."""

    reads_left = 10**9

    def read(self, shard: int) -> Block:
        self.reads_left -= 1
        if self.reads_left < 0:
            raise StoppedError
        return super().read(shard)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("reads", [3, 9, 17, 30])
def test_stopped_anywhere_it_resumes_bit_equal(optimizer: str, reads: int, tmp_path: Path) -> None:
    X, y = rings()
    settings = SGDSettings(
        optimizer=optimizer, learning_rate=0.05 if "adam" in optimizer else 64.0, batch_size=32, max_epochs=5
    )
    heldout = ArraySource(X[:100], y[:100])
    whole = model()
    expected = train(whole, ArraySource(X[100:], y[100:], shard_rows=64), heldout, settings, verbose=False)

    stopping = StoppingSource(X[100:], y[100:], shard_rows=64)
    stopping.reads_left = len(stopping.shard_sizes) + reads  # all shards are read once before, for the fingerprint
    with pytest.raises(StoppedError):
        train(model(), stopping, heldout, settings, checkpoint_dir=tmp_path, checkpoint_seconds=0.0, verbose=False)
    resumed = model()
    history = train(
        resumed, ArraySource(X[100:], y[100:], shard_rows=64), heldout, settings, checkpoint_dir=tmp_path, verbose=False
    )
    assert history == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == expected


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first, second = model(), model()
    history = train(first, *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)
    assert train(second, *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False) == history
    assert torch.equal(first.head.weights, second.head.weights)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path: Path) -> None:
    train(model(), *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)
    other = SGDSettings(learning_rate=8.0, batch_size=32, max_epochs=6)
    with pytest.raises(ValueError, match=r"another configuration \(learning_rate: 16.0 there, 8.0 here\)"):
        train(model(), *sources(), other, checkpoint_dir=tmp_path, verbose=False)
    with pytest.raises(ValueError, match=r"another configuration .*model"):
        train(model(num_features=32), *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)
    with pytest.raises(ValueError, match=r"another configuration .*rows"):
        train(model(), *sources(400), SHORT, checkpoint_dir=tmp_path, verbose=False)


def test_a_broken_checkpoint_is_an_error_not_a_start_over(tmp_path: Path) -> None:
    train(model(), *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="not a readable safetensors file"):
        train(model(), *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model()
    expected = train(whole, *sources(), SHORT, verbose=False)
    writes = 0

    def fsync(descriptor: int) -> None:
        nonlocal writes
        writes += 1
        if writes > 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "fsync", fsync)
        with pytest.raises(OSError, match="could not write a checkpoint") as caught:
            train(model(), *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False)
    assert caught.value.errno == errno.ENOSPC
    assert [p.name for p in tmp_path.glob("*.part")] == []
    resumed = model()
    assert train(resumed, *sources(), SHORT, checkpoint_dir=tmp_path, verbose=False) == expected
    assert torch.equal(resumed.head.weights, whole.head.weights)


LONG = SGDSettings(learning_rate=16.0, batch_size=8, max_epochs=12)


def train_until_killed(directory: Path) -> None:
    """Killed after five checkpoints of its own."""
    checkpoints = iter([False] * 4 + [True])
    kill_after(sgd, "write_checkpoint", lambda *_, **__: next(checkpoints))
    train(model(num_features=256), *sources(), LONG, checkpoint_dir=directory, checkpoint_seconds=0.0, verbose=False)


def test_killed_repeatedly_it_ends_bit_equal(tmp_path: Path) -> None:
    whole = model(num_features=256)
    expected = train(whole, *sources(), LONG, verbose=False)
    for _ in range(3):
        run_until_killed(train_until_killed, tmp_path)
    resumed = model(num_features=256)
    assert train(resumed, *sources(), LONG, checkpoint_dir=tmp_path, verbose=False) == expected
    assert all(torch.equal(a, b) for a, b in zip(weights(resumed), weights(whole), strict=True))


def test_progress_and_callbacks(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[dict] = []
    settings = SGDSettings(learning_rate=16.0, batch_size=32, max_epochs=2)
    train(model(), *sources(), settings, callbacks=[seen.append], verbose=True)
    assert [record["epoch"] for record in seen] == [1, 2]
    bar = capsys.readouterr().err
    assert "epoch 1" in bar
    assert "rate=16" in bar


def test_precision_is_put_back() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    for precision in ("tf32", "bf16"):
        m = model()
        history = train(
            m,
            *sources(),
            SGDSettings(learning_rate=16.0, batch_size=32, max_epochs=2, precision=precision),
            verbose=False,
        )
        assert m.head.weights.dtype == torch.float32
        assert history[-1]["ce"] < 1.0
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_bad_sources_and_recipes() -> None:
    train_source, heldout = sources()
    wide = ArraySource(torch.ones(5, 3), torch.zeros(5, dtype=torch.long))
    with pytest.raises(ValueError, match=r"validation_data must have 2 inputs.* got 3"):
        train(model(), train_source, wide, SHORT, verbose=False)
    empty = SimpleNamespace(shard_sizes=(0, 0), num_inputs=2)
    with pytest.raises(ValueError, match="validation_data must hold at least one row, got none"):
        train(model(), train_source, empty, SHORT, verbose=False)
    for arguments, message in [
        ({"loss": "hinge"}, "loss must be one of"),
        ({"optimizer": "lbfgs"}, "optimizer must be one of"),
        ({"batch_size": 0}, "batch_size must be an integer"),
        ({"learning_rate": -1.0}, "learning_rate must be a positive"),
        ({"criterion": "mse"}, "criterion='mse' does not fit loss='softmax'"),
        ({"precision": "fp8"}, "precision must be one of"),
    ]:
        with pytest.raises(ValueError, match=message):
            SGDSettings(**arguments)
    assert evaluate(model(), heldout, loss="softmax").summary()["ce"] == pytest.approx(np.log(3), rel=1e-6)


def test_nothing_to_learn_leaves_the_model_as_it_was_with_a_warning() -> None:
    """Validation labels contradict those of training: whatever is learned increases the loss slightly."""
    X, y = rings()
    m = model()
    rows, heldout = ArraySource(X[100:], y[100:]), ArraySource(X[:100], (y[:100] + 1) % 3)
    with pytest.warns(ConvergenceWarning, match=r"never improved.* ce.*model is unchanged"):
        history = train(m, rows, heldout, SGDSettings(learning_rate=2.0, max_halvings=3), verbose=False)
    assert {record["decision"] for record in history} == {"revert and halve"}
    assert not any(part.any() for part in weights(m))
