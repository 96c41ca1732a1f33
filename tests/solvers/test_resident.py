"""Data that stay on the GPU have the same rows in the same order."""

from __future__ import annotations

import pytest
import torch

from bochner.data import ArraySource
from bochner.data.batches import batches
from bochner.solvers import step as module
from bochner.solvers.step import ResidentSource, resident
from tests.solvers.runs import rings

X, y = rings()


def ordered(source) -> list[torch.Tensor]:
    return [block.X.cpu() for epoch in range(2) for block in batches(source, batch_size=32, seed=0, epoch=epoch)]


class CountedSource(ArraySource):
    reads = 0

    def read(self, shard: int):
        self.reads += 1
        return super().read(shard)


def test_rows_come_in_the_same_order_and_are_read_once() -> None:
    source, weight = CountedSource(X, y, shard_rows=20), torch.rand(len(y), generator=torch.Generator().manual_seed(0))
    kept = ResidentSource(source, torch.device("cpu"))
    wanted = ordered(ArraySource(X, y, shard_rows=20))
    assert all(torch.equal(a, b) for a, b in zip(ordered(kept), wanted, strict=True))
    assert source.reads == len(source.shard_sizes)
    weighted = ResidentSource(ArraySource(X, y, weight), torch.device("cpu")).read(0)
    assert torch.equal(weighted.weight, weight)


@pytest.mark.gpu
def test_on_a_gpu_it_is_kept_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    source, device = ArraySource(X, y), torch.device("cuda")
    assert resident(source, device).read(0).X.is_cuda
    monkeypatch.setattr(module, "RESIDENT_SHARE", 0.0)
    assert resident(source, device) is source
