"""How much memory tensors took, counted after every operation."""

from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """`peak` is the largest number of bytes of tensors created in this context and alive at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._alive: dict[StorageWeakRef, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {StorageWeakRef(t.untyped_storage()) for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                storage = tensor.untyped_storage()
                if (reference := StorageWeakRef(storage)) not in given:  # views and in-place results are not new
                    self._alive[reference] = storage.nbytes()
        self._alive = {reference: size for reference, size in self._alive.items() if not reference.expired()}
        self.peak = max(self.peak, sum(self._alive.values()))
        return result


def peak_elements(call: Any, *, dtype: torch.dtype) -> float:
    with torch.no_grad(), PeakMemory() as memory:
        call()
    return memory.peak / dtype.itemsize
