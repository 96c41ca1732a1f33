"""Work on a GPU that is launched as a whole instead of kernel by kernel."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Work = Callable[[Tensor, Tensor, float], None]
"""Called with rows X, their targets y and a rate; changes tensors of its own in place and never waits for the GPU."""

PATIENCE = 4  # calls alike before a capture: it costs as much as some of them


class Replay:
    """`work` itself, but after some calls alike the next are one CUDA graph: Python no longer sets the pace.

    Calls are alike when shapes, dtypes and the rate are; any other one is made as it stands. On a CPU all are.
    Memory: a copy of the rows, and what `work` allocates is kept.

    >>> seen = []
    >>> replay = Replay(lambda X, y, rate: seen.append(len(X)))
    >>> for _ in range(6):
    ...     replay(torch.ones(2, 1), torch.ones(2), 0.5)
    >>> len(seen)
    6
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._kind: tuple[object, ...] = ()
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, X: Tensor, y: Tensor, rate: float) -> None:
        if not X.is_cuda:
            self._work(X, y, rate)
            return
        kind = (X.shape, X.dtype, y.shape, y.dtype, rate)
        if kind != self._kind:
            self._kind, self._calls, self._graph = kind, 0, None
            self._X, self._y = X.clone(), y.clone()
        self._X.copy_(X)  # always the same memory: kernels loaded before the capture are those that it records
        self._y.copy_(y)
        self._calls += 1
        if self._calls <= PATIENCE:
            self._work(self._X, self._y, rate)
            return
        if self._graph is None:
            self._graph = self._captured(rate)
        self._graph.replay()

    def _captured(self, rate: float) -> torch.cuda.CUDAGraph:
        """The launches, recorded without being made. Other threads go on: one of them may be reading the next rows."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._work(self._X, self._y, rate)
        return graph
