"""A training set that stays on the GPU after it was read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source
from bochner.models.criteria import Scores
from bochner.models.heads import FeatureModel
from bochner.models.losses import LOSSES
from bochner.ops import row_tiles
from bochner.solvers.checkpoint import trainable
from bochner.solvers.optimizers import Optimizer
from bochner.solvers.parallel.group import here
from bochner.solvers.preconditioner import Preconditioner
from bochner.solvers.settings import SGDSettings

# Features made at once: 16 MB on a CPU, enough for fast products; a GPU wants more.
CPU_ELEMENTS, GPU_ELEMENTS = 2**22, 2**26


class Runner(NamedTuple):
    """Something that learns: a module, and what moves it."""

    part: nn.Module
    optimizer: Optimizer
    preconditioner: Preconditioner | None = None


def evaluate(model: nn.Module, source: Source, *, loss: str) -> Scores:
    """What the metrics need of every row of `source`, in order, in blocks."""
    return evaluate_parts(nn.Identity(), [model], source, loss=loss, rows=rows_at_once(model))[0]


def evaluate_parts(
    shared: nn.Module, parts: Sequence[nn.Module], source: Source, *, loss: str, rows: int
) -> list[Scores]:
    """The same for each part(shared(x)); `shared` is computed once, `rows` of it at a time."""
    like = next(parts[0].parameters())
    found: list[list[Scores]] = [[] for _ in parts]
    with torch.no_grad():
        for block in map(here().share, in_order(source, batch_rows=rows * here().num_shares)):
            Z, y = shared(block.X.to(like)), block.y.to(like.device)
            for part, scores in zip(parts, found, strict=True):
                scores.append(Scores.of_batch(loss, part(Z), y, block.weight))
    return [here().join(Scores.join(scores)) for scores in found]


def rows_at_once(model: nn.Module) -> int:
    """Rows whose features are made together; memory is bounded by it, not by the batch."""
    width = max(max(p.shape, default=1) for p in model.parameters())
    if isinstance(model, FeatureModel):
        width = max(width, model.feature_map.num_inputs, model.feature_map.num_features)
    elements = CPU_ELEMENTS if device_of(model).type == "cpu" else GPU_ELEMENTS
    return max(1, elements // width)


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    block: Block,
    settings: SGDSettings,
    preconditioner: Preconditioner | None = None,
    *,
    size: int | None = None,
) -> None:
    """One step on the mean loss of `block`; its gradient is summed over parts whose features fit `rows_at_once`.

    With a `size`, `block` is this process's share of a batch of so many rows.
    """
    runner = Runner(model, optimizer, preconditioner)
    take_steps(nn.Identity(), [runner], block, settings, rows=rows_at_once(model), size=size)


def take_steps(
    shared: nn.Module,
    runners: Sequence[Runner],
    block: Block,
    settings: SGDSettings,
    *,
    rows: int,
    size: int | None = None,
) -> None:
    """The same step for each runner, whose module gets shared(x); `shared` is computed once, `rows` of it at a time."""
    if size is None:
        size, block = len(block.y), here().share(block)
    like = next(runners[0].part.parameters())
    for runner in runners:
        runner.optimizer.zero_grad(set_to_none=True)
    for tile in row_tiles(len(block.y), row_elements=1, tile_elements=rows):
        Z, y = shared(block.X[tile].to(like)), block.y[tile].to(like.device)
        weight = None if block.weight is None else block.weight[tile].to(like)
        for runner in runners:
            (LOSSES[settings.loss](runner.part(Z), y, weight) * (len(y) / size)).backward()
    for runner in runners:
        here().sum_gradients(list(trainable(runner.part).values()))
        if runner.preconditioner is not None:
            runner.preconditioner.apply(alpha=settings.alpha)
        runner.optimizer.step()


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


@contextmanager
def compute_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Products in TF32 or bfloat16 within this block only; parameters stay as they are.

    Autocast's own cache is off: it would keep the first bfloat16 copy of weights that every step changes.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def on_device(blocks: Iterable[Block], device: torch.device) -> Iterator[Block]:
    """The same blocks on `device`: for a GPU one ahead, from pinned memory, on a stream of its own.

    Elsewhere they are handed on as they are. Memory: two blocks more than without.

    >>> [block.y.tolist() for block in on_device([Block(torch.ones(2, 1), torch.arange(2))], torch.device("cpu"))]
    [[0, 1]]
    """
    if device.type != "cuda":
        yield from blocks
        return
    stream = torch.cuda.Stream(device)
    waiting: Block | None = None
    for block in blocks:
        with torch.cuda.stream(stream):
            following = Block(*(None if part is None else _move(part, device) for part in block))  # type: ignore[arg-type]
        if waiting is not None:
            yield waiting
        waiting = _received(following, stream)
    if waiting is not None:
        yield waiting


def _move(part: Tensor, device: torch.device) -> Tensor:
    return part if part.is_cuda else part.pin_memory().to(device, non_blocking=True)


def _received(block: Block, stream: torch.cuda.Stream) -> Block:
    """The current stream waits for the copy, and the memory is kept until its work is done."""
    current = torch.cuda.current_stream(block.X.device)
    current.wait_stream(stream)
    for part in block:
        if part is not None:
            part.record_stream(current)
    return block


SHARE = 0.4  # of the GPU's free memory: features, weights and a group of shards in random order want the rest
BYTES = 4


class ResidentSource:
    """The shards of `source`, each kept on `device` from its first reading on: the same rows in the same order."""

    def __init__(self, source: Source, device: torch.device) -> None:
        self._source, self._device = source, device
        self._kept: dict[int, Block] = {}
        self.shard_sizes, self.num_inputs = source.shard_sizes, source.num_inputs

    def read(self, shard: int) -> Block:
        if shard not in self._kept:
            block = self._source.read(shard)
            self._kept[shard] = Block(self._move(block.X), self._move(block.y), self._move_weight(block.weight))
        return self._kept[shard]

    def _move(self, part: Tensor) -> Tensor:
        return part.to(self._device)

    def _move_weight(self, weight: Tensor | None) -> Tensor | None:
        return None if weight is None else self._move(weight)


def resident(source: Source, device: torch.device) -> Source:
    """`source` kept on the GPU where it fits, else as it is: a network or a disk then feeds it block by block.

    >>> from bochner.data import ArraySource
    >>> source = ArraySource(torch.ones(3, 2), torch.ones(3))
    >>> resident(source, torch.device("cpu")) is source
    True
    """
    if device.type != "cuda" or here().num_processes > 1:
        return source
    free, _ = torch.cuda.mem_get_info(device)
    needed = BYTES * sum(source.shard_sizes) * (source.num_inputs + 2)
    return ResidentSource(source, device) if needed < SHARE * free else source
