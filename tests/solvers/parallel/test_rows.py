"""Several processes train on the batches of one process; each shard is read by one of them."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
import torch

from bochner.data.batches import batches
from bochner.data.blocks import Block
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.parallel.rows import shared_batches
from bochner.solvers.sgd import train
from tests.solvers.parallel.ranks import run_ranks
from tests.solvers.problems import classes, fourier_map, points, weights
from tests.solvers.rows import Rows


class CountedRows(Rows):
    """Rows that count how often each shard was read."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.count: Counter[int] = Counter()

    def read(self, shard: int) -> Block:
        self.count[shard] += 1
        return super().read(shard)


def rows(*, shard_rows: int = 20, weighted: bool = True) -> CountedRows:
    X = points(230)
    return CountedRows(X, classes(X, 3), weights(230) if weighted else None, shard_rows=shard_rows)


def shares_of_batches(group: Any) -> list[Any]:
    """Whether the shares are those of the batches of one process, for several orders, and the shards that were read."""
    results = []
    for shard_rows, batch_size, start, weighted in [(20, 32, 0, True), (20, 7, 12, True), (500, 64, 1, False)]:
        source, sizes = rows(shard_rows=shard_rows, weighted=weighted), deque[int]()
        order = {"batch_size": batch_size, "seed": 3, "epoch": 2, "start": start, "buffer": 4}
        own = list(shared_batches(source, group, sizes, **order))
        count = dict(source.count)
        whole = list(batches(source, **order))
        expected = [group.share(batch) for batch in whole]
        assert list(sizes) == [len(batch.y) for batch in whole]
        for part, right in zip(own, expected, strict=True):
            assert all(a is b is None or torch.equal(a, b) for a, b in zip(part, right, strict=True))
        results.append(count)
    return results


@pytest.mark.parametrize("count", [2, 3])
def test_shares_of_batches(count: int, tmp_path: Path) -> None:
    results = run_ranks(shares_of_batches, count, tmp_path)
    read = [sum(map(Counter, parts), Counter[int]()) for parts in zip(*results, strict=True)]
    assert read[0] == Counter(range(12))  # each shard in one process
    assert read[1].total() == 8  # the group before `start` is not read
    assert read[2] == Counter({0: count})  # fewer shards than processes: the others read its dtypes


def trained(group: Any = None) -> tuple[Counter[int], Any]:
    source = rows()
    head = LinearHead.zeros(num_features=fourier_map().num_features, num_outputs=3)
    model = FeatureModel(fourier_map(), head).double()
    settings = SGDSettings(max_epochs=2, learning_rate=0.5, batch_size=32)
    train(model, source, rows(shard_rows=500), settings, verbose=False, group=group)
    return source.count, model.head.weights.detach().numpy()


def test_each_process_trains_on_shards_of_its_own(tmp_path: Path) -> None:
    count, expected = trained()
    assert count == Counter(dict.fromkeys(range(12), 2))  # in two epochs
    (first, one), (second, two) = run_ranks(trained, 2, tmp_path)
    assert first + second == count
    assert first.total() == second.total()
    torch.testing.assert_close(torch.tensor(one), torch.tensor(expected), rtol=0, atol=1e-10)
    torch.testing.assert_close(torch.tensor(two), torch.tensor(one), rtol=0, atol=0)
