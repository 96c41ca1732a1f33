"""Gradient steps and evaluation, a bounded number of features at a time; transfer of blocks to a GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from bochner.data.batches import in_order
from bochner.data.blocks import Block, Source
from bochner.models.heads import FeatureModel
from bochner.models.losses import LOSSES, Scores
from bochner.models.network import Network
from bochner.ops import has_bf16_units, row_tiles
from bochner.solvers.fused import ColumnSteps, FusedSteps, fused_steps
from bochner.solvers.optimizers import Optimizer, SGDSettings, trainable
from bochner.solvers.preconditioner import Preconditioner
from bochner.solvers.replay import ReplayedSteps

if TYPE_CHECKING:
    from bochner.solvers.parallel.workers import Workers

# Features computed at once. On a CPU 16 MB of float32, which stays in the last-level cache and is enough for fast
# products; a GPU needs larger products to be busy and has the memory: 256 MB.
CPU_ELEMENTS, GPU_ELEMENTS = 2**22, 2**26
# The share of a GPU's free memory that a resident training set may take; features, weights and the group of shards
# that is being shuffled need the rest.
RESIDENT_SHARE = 0.4
BYTES = 4  # of a float32 input, target or weight


class Learner(NamedTuple):
    """A module that is trained, its optimizer and its preconditioner."""

    module: nn.Module
    optimizer: Optimizer
    preconditioner: Preconditioner | None = None


def run_steps(
    model: nn.Module,
    optimizer: Optimizer,
    read: Callable[[int], Iterator[Block]],
    settings: SGDSettings,
    preconditioner: Preconditioner | None = None,
    *,
    fuse: bool = True,
    group: Workers | None = None,
    sizes: deque[int] | None = None,
) -> Iterator[int]:
    """Take one step for each batch of `read(rows)` at the optimizer's rate; yield the number of rows of each block.

    `read(rows)` returns blocks of `rows` rows: one batch, or several whole ones where fused steps prefer that; `fuse`
    False keeps to one ordinary step per block. On a GPU the steps of networks are recorded and replayed. Work between
    two blocks belongs in the loop over this iterator.

    With a `group`, each process takes its share of every block. If `sizes` is given, `read` returns these shares, and
    appends the sizes of the whole blocks.
    """
    device = next(model.parameters()).device
    learners, rows = [Learner(model, optimizer, preconditioner)], rows_at_once(model)
    fused: FusedSteps | ColumnSteps | ReplayedSteps | None = None
    if fuse and group is None and (preconditioner is None or device.type == "cuda"):
        fused = fused_steps(model, settings, preconditioner)
        replays = device.type == "cuda" and preconditioner is None and ReplayedSteps.suit(optimizer)
        if replays and isinstance(model, Network):  # another module might wait for the GPU, which cannot be recorded

            def step(block: Block) -> None:  # needs a GPU
                take_steps(None, learners, block, settings, rows=rows, size=len(block.y))

            fused = ReplayedSteps(step, optimizer, batch_size=settings.batch_size, noise=model.noise)
    blocks = read(settings.batch_size if fused is None else fused.rows)
    if sizes is None:
        sizes = deque()  # of blocks that were read and not yet used; a GPU reads one ahead
        if group is not None:
            blocks = group.shares(blocks, sizes)
    if device.type == "cuda":
        blocks = on_device(blocks, device)
    for block in blocks:
        size = sizes.popleft() if sizes else len(block.y)
        if fused is None:
            take_steps(None, learners, block, settings, rows=rows, size=size, group=group)
        else:
            fused.take(block, rate=optimizer.param_groups[0]["lr"])
        yield size


def take_step(
    model: nn.Module,
    optimizer: Optimizer,
    block: Block,
    settings: SGDSettings,
    preconditioner: Preconditioner | None = None,
) -> None:
    """One step on the mean loss of `block`; its gradient is summed over tiles of `rows_at_once` rows."""
    learner = Learner(model, optimizer, preconditioner)
    take_steps(None, [learner], block, settings, rows=rows_at_once(model), size=len(block.y))


def take_steps(
    shared: nn.Module | None,
    learners: Sequence[Learner],
    block: Block,
    settings: SGDSettings,
    *,
    rows: int,
    size: int,
    group: Workers | None = None,
) -> None:
    """The same step for several learners on shared(x), which is computed once, `rows` rows at a time; None is x itself.

    `block` is a batch of `size` rows, or with a `group` this process's share of it: gradients are summed over shares.
    """
    like = next(learners[0].module.parameters())
    for learner in learners:
        for parameter in trainable(learner.module).values():
            parameter.grad = None
    for tile in row_tiles(len(block.y), row_elements=1, tile_elements=rows):
        Z, y = block.X[tile].to(like), block.y[tile].to(like.device)
        if shared is not None:
            Z = shared(Z)
        weight = None if block.weight is None else block.weight[tile].to(like)
        for learner in learners:
            (LOSSES[settings.loss](learner.module(Z), y, weight) * (len(y) / size)).backward()
    for learner in learners:
        if group is not None:
            group.sum_gradients(list(trainable(learner.module).values()))
        if learner.preconditioner is not None:
            learner.preconditioner.apply(alpha=settings.alpha)
        learner.optimizer.step()


def evaluate(model: nn.Module, source: Source, *, loss: str, group: Workers | None = None) -> Scores:
    """The scores of every row of `source`, in order; with a `group` each process evaluates its share."""
    return evaluate_modules(None, [model], source, loss=loss, rows=rows_at_once(model), group=group)[0]


def evaluate_modules(
    shared: nn.Module | None,
    modules: Sequence[nn.Module],
    source: Source,
    *,
    loss: str,
    rows: int,
    group: Workers | None = None,
) -> list[Scores]:
    """`evaluate` of module(shared(x)) for each of `modules`; shared(x) is computed once, `rows` rows at a time."""
    like = next(modules[0].parameters())
    blocks = in_order(source, batch_rows=rows if group is None else rows * group.num_shares)
    scores: list[list[Scores]] = [[] for _ in modules]
    with torch.no_grad():
        for block in blocks if group is None else map(group.share, blocks):
            Z, y = block.X.to(like), block.y.to(like.device)
            if shared is not None:
                Z = shared(Z)
            for module, parts in zip(modules, scores, strict=True):
                parts.append(Scores.of_batch(loss, module(Z), y, block.weight))
    joined = [parts[0] if len(parts) == 1 else Scores.join(parts) for parts in scores]
    return joined if group is None else [group.join(whole) for whole in joined]


def rows_at_once(model: nn.Module) -> int:
    """Rows whose features are computed together: memory is bounded by it, not by the batch."""
    width = max(max(p.shape, default=1) for p in model.parameters())
    if isinstance(model, FeatureModel):
        width = max(width, model.feature_map.num_inputs, model.feature_map.num_features)
    elements = CPU_ELEMENTS if next(model.parameters()).device.type == "cpu" else GPU_ELEMENTS
    return max(1, elements // width)


@contextmanager
def compute_precision(precision: str, device: torch.device) -> Iterator[None]:
    """Products in TF32 or bfloat16 within this block only; parameters keep their dtype. On a CPU without units for
    bfloat16 products stay in float32.

    Autocast's cache is off: it would keep the first bfloat16 copy of weights that every step changes.
    """
    before = torch.backends.cuda.matmul.allow_tf32
    short = precision == "bf16" and has_bf16_units(device)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=short, cache_enabled=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def on_device(blocks: Iterable[Block], device: torch.device) -> Iterator[Block]:  # needs a GPU
    """The same blocks on `device`, a GPU: one ahead, from pinned memory, on a separate stream.

    Memory: two more blocks on the GPU.
    """
    stream = torch.cuda.Stream(device)
    waiting: Block | None = None
    for block in blocks:
        with torch.cuda.stream(stream):
            following = Block(*(None if part is None else _move(part, device) for part in block))  # type: ignore[arg-type]
        if waiting is not None:
            yield waiting
        current = torch.cuda.current_stream(device)
        current.wait_stream(stream)
        for part in following:  # its memory is kept until the current stream has used it
            if part is not None:
                part.record_stream(current)
        waiting = following
    if waiting is not None:
        yield waiting


def _move(part: Tensor, device: torch.device) -> Tensor:
    return part if part.is_cuda else part.pin_memory().to(device, non_blocking=True)


class ResidentSource:
    """The shards of `source`, each kept on `device` from its first reading on: the same rows in the same order."""

    def __init__(self, source: Source, device: torch.device) -> None:
        self._source, self._device = source, device
        self._kept: dict[int, Block] = {}
        self.shard_sizes, self.num_inputs = source.shard_sizes, source.num_inputs

    def read(self, shard: int) -> Block:
        if shard not in self._kept:
            X, y, weight = self._source.read(shard)
            moved = None if weight is None else weight.to(self._device)
            self._kept[shard] = Block(X.to(self._device), y.to(self._device), moved)
        return self._kept[shard]


def resident(source: Source, device: torch.device) -> Source:
    """`source` kept on the GPU `device` if it fits, else `source` itself, which is then copied block by block."""
    free, _ = torch.cuda.mem_get_info(device)
    needed = BYTES * sum(source.shard_sizes) * (source.num_inputs + 2)
    return ResidentSource(source, device) if needed < RESIDENT_SHARE * free else source
