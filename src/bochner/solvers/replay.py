"""Training steps on a GPU that are recorded once, as a CUDA graph, and then replayed."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch import Generator, Tensor

from bochner.data.blocks import Block
from bochner.ops import row_tiles
from bochner.solvers.optimizers import Optimizer, PlainSGD

Work = Callable[[Tensor, Tensor, float], None]
"""Called with rows X, targets y and a rate; changes its own tensors in place and never synchronises with the GPU."""

_CAPTURES = Lock()
MIN_CALLS = 4  # equal calls before a capture, which costs as much as a few of them


class Replay:
    """Calls `work`, and after a few equal calls replays it as one CUDA graph, without the overhead of Python.

    Calls are equal when shapes, dtypes and the rate are; others are made directly, and so are all calls on a CPU.
    `noise` is the generator that `work` draws from, if any: a replay continues from its state, as a call would.
    Memory: a copy of the rows, and everything that `work` allocates.

    >>> seen = []
    >>> replay = Replay(lambda X, y, rate: seen.append(len(X)))
    >>> for _ in range(6):
    ...     replay(torch.ones(2, 1), torch.ones(2), 0.5)
    >>> len(seen)
    6
    """

    def __init__(self, work: Work, *, noise: Generator | None = None) -> None:
        self._work, self._noise = work, noise
        self._kind: tuple[object, ...] = ()
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, X: Tensor, y: Tensor, rate: float) -> None:
        if X.is_cuda:
            self._replay(X, y, rate)
        else:
            self._work(X, y, rate)

    def _replay(self, X: Tensor, y: Tensor, rate: float) -> None:  # needs a GPU
        kind = (X.shape, X.dtype, y.shape, y.dtype, rate)
        if kind != self._kind:
            self._kind, self._calls, self._graph = kind, 0, None
            self._X, self._y = X.clone(), y.clone()
        self._X.copy_(X)  # always the same memory, which the graph refers to
        self._y.copy_(y)
        self._calls += 1
        if self._calls <= MIN_CALLS:
            self._work(self._X, self._y, rate)
            return
        if self._graph is None:
            self._graph = self._captured(rate)
        self._graph.replay()

    def _captured(self, rate: float) -> torch.cuda.CUDAGraph:  # needs a GPU
        """The launches, recorded without being run. Other threads continue: one of them may be reading the next
        rows, but only one may record, as torch has one stream for that. Nor may garbage be collected in between, since
        a graph among it would be freed."""
        graph = torch.cuda.CUDAGraph()
        if self._noise is not None:
            graph.register_generator_state(self._noise)
        with _CAPTURES, _kept_garbage(), torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._work(self._X, self._y, rate)
        return graph


@contextmanager
def _kept_garbage() -> Iterator[None]:  # needs a GPU
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


BATCHES = 8  # recorded together, since a replay takes several times as long as the steps of a small network


class ReplayedSteps:
    """Steps of a network on a GPU: `step(block)` is called for the first minibatches and replayed for the others.

    Launching the kernels of a small network takes several times as long as running them. `take` accepts several
    minibatches at once. The optimizer must keep its rate in a tensor (see `make_optimizer`), so that a replay uses the
    current one, or be `PlainSGD`, whose rate seldom changes.
    """

    def __init__(
        self, step: Callable[[Block], None], optimizer: Optimizer, *, batch_size: int, noise: Generator | None = None
    ) -> None:
        self.rows, self._batch_size, self._step = BATCHES * batch_size, batch_size, step
        self._replay = Replay(lambda X, y, rate: self._take(Block(X, y)), noise=noise)

    @staticmethod
    def suit(optimizer: Optimizer) -> bool:
        """Whether steps of this optimizer can be replayed."""
        has_tensors = all(isinstance(group["lr"], Tensor) for group in optimizer.param_groups)
        return isinstance(optimizer, PlainSGD) or has_tensors

    def take(self, block: Block, *, rate: float | Tensor) -> None:
        """A step for each minibatch of `block`, at the rate of the optimizer."""
        if block.weight is None:
            self._replay(block.X, block.y, 0.0 if isinstance(rate, Tensor) else rate)
        else:
            self._take(block)

    def _take(self, block: Block) -> None:
        for rows in row_tiles(len(block.y), row_elements=1, tile_elements=self._batch_size):
            self._step(Block(*(None if part is None else part[rows] for part in block)))  # type: ignore[arg-type]
