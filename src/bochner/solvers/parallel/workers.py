"""The processes that torchrun started, as one object that training functions take as `group`."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from bochner import checks
from bochner.data.blocks import Block, take
from bochner.models.heads import FeatureModel
from bochner.models.losses import Scores
from bochner.solvers.optimizers import trainable
from bochner.solvers.parallel.parts import (
    columns_of,
    forms_of,
    is_by_feature,
    is_part,
    split_model,
    split_preconditioner,
)
from bochner.solvers.preconditioner import Preconditioner

STORE_VARIABLE = "BOCHNER_STORE"  # the environment variable with the path of the file store of the processes


class Workers:
    """R = data x features processes, process r at row r // features and column r % features of a grid.

    Each row of the grid has its share of a batch, each column its part of the features; then

        scores = sum over a row's processes of z_c(x) Theta_c + bias,     gradient = sum over a column's processes.

    Two messages per step: the scores [n, C] of a share (or [n, r] numbers with a bottleneck) along rows, and the
    gradient of a part, C D / features numbers, along columns. By the collectives of torch.distributed. A single process
    needs no `Workers`: functions that take a `group` accept None.
    """

    def __init__(self, *, features: int = 1, device: torch.device | None = None) -> None:
        """For torch's default process group; every process calls this."""
        size = dist.get_world_size()
        if size % checks.positive_int("features", features):
            raise ValueError(f"features must divide the number of processes, {size}, got {features}.")
        self.device = torch.device("cpu") if device is None else device
        self.grid: DeviceMesh = init_device_mesh(
            self.device.type, (size // features, features), mesh_dim_names=("data", "features")
        )
        self.is_first, self.num_processes = dist.get_rank() == 0, size  # the first process writes and logs
        self.num_shares, self.num_parts = size // features, features
        self.share_number, self.part_number = self.grid.get_local_rank("data"), self.grid.get_local_rank("features")

    def __deepcopy__(self, memo: object) -> Self:
        """Copies of a head belong to the same processes."""
        return self

    def share(self, block: Block) -> Block:
        """This process's rows of a batch."""
        return take(block, share(len(block.y), self.share_number, self.num_shares))

    def shares(self, blocks: Iterable[Block], sizes: deque[int]) -> Iterator[Block]:
        """This process's rows of each batch; the size of the whole batch is appended to `sizes`."""
        for block in blocks:
            sizes.append(len(block.y))
            yield self.share(block)

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up, in place, the gradients of all shares of the rows."""
        if self.num_shares == 1:
            return
        group = self.grid.get_group("data")
        for p in parameters:
            if p.grad is None:  # this process had no row of the batch
                p.grad = torch.zeros_like(p)
        works = [dist.all_reduce(p.grad, group=group, async_op=True) for p in parameters if p.grad is not None]
        for work in works:
            assert work is not None
            work.wait()

    def sum_over_features(self, partial: Tensor) -> Tensor:
        """The sum over the processes of a row, on all of them; the gradient of each summand is that of the sum."""
        total: Tensor = SumOfParts.apply(partial, self.grid.get_group("features"))
        return total

    def join(self, scores: Scores) -> Scores:
        """The scores of the rows of all shares."""
        return Scores(*(None if values is None else self._join_rows(values) for values in scores))  # type: ignore[arg-type]

    def _join_rows(self, rows: Tensor) -> Tensor:
        """The rows of all shares, in order; padded in transit, since shares need not be equal."""
        group = self.grid.get_group("data")
        count = torch.tensor([len(rows)], device=self.device)
        counts = [torch.empty_like(count) for _ in range(self.num_shares)]
        dist.all_gather(counts, count, group=group)
        longest = max(map(int, counts))
        padded = nn.functional.pad(rows.to(self.device), (0, longest - len(rows)))
        parts = [torch.empty_like(padded) for _ in range(self.num_shares)]
        if longest:
            dist.all_gather(parts, padded, group=group)
        return torch.cat([part[: int(size)] for part, size in zip(parts, counts, strict=True)]).to(rows.device)

    def _join_parts(self, local: Tensor, dim: int) -> Tensor:
        """The tensors of all parts of the features, side by side along `dim`."""
        parts = [torch.empty_like(local) for _ in range(self.num_parts)]
        dist.all_gather(parts, local.contiguous(), group=self.grid.get_group("features"))
        return torch.cat(parts, dim=dim)

    def sum(self, partial: Tensor) -> Tensor:
        """The sum over the shares of the rows, in place and on all processes."""
        if self.num_shares > 1:
            dist.all_reduce(partial, group=self.grid.get_group("data"))
        return partial

    def agree(self, value: float) -> float:
        """The value of the first process."""
        number = torch.tensor([value], dtype=torch.float64)  # on the CPU, so that a GPU is not interrupted
        dist.broadcast(number, src=0)
        return float(number)

    def agree_text(self, make: Callable[[], str]) -> str:
        """The text that the first process makes."""
        content = torch.frombuffer(bytearray(make().encode()), dtype=torch.uint8) if self.is_first else torch.empty(0)
        length = int(self.agree(len(content)))
        content = content if self.is_first else torch.empty(length, dtype=torch.uint8)
        dist.broadcast(content, src=0)
        return bytes(content.tolist()).decode()

    def align(self, model: nn.Module) -> None:
        """Copy the parameters of the first process's `model` to all processes."""
        for parameter in model.parameters():
            values = parameter.data.contiguous()
            dist.broadcast(values, src=0)
            parameter.data.copy_(values)

    def split(self, model: nn.Module, preconditioner: Preconditioner | None) -> tuple[nn.Module, Preconditioner | None]:
        """This process's part of a model, and of the preconditioner that the first process has."""
        whole = self._broadcast_preconditioner(preconditioner, model)
        if self.num_parts == 1:
            return model, whole
        part = split_model(model, self)
        return part, None if whole is None else split_preconditioner(whole, part, self)

    def _broadcast_preconditioner(self, first: Preconditioner | None, model: nn.Module) -> Preconditioner | None:
        rank = int(self.agree(-1 if first is None else len(first.values)))
        if rank < 0:
            return None
        assert isinstance(model, FeatureModel)
        head, width = model.head, model.feature_map.num_features + 1
        values = head.bias.new_empty(rank) if first is None else first.values
        vectors = head.bias.new_empty(rank, width) if first is None else first.vectors
        for tensor in (values, vectors) if rank else ():
            dist.broadcast(tensor, src=0)
        return Preconditioner(head, vectors, values, self.agree(0.0 if first is None else first.floor))

    def gather(self, part: nn.Module, model: nn.Module) -> None:
        """Copy the parts of all processes into the whole `model`."""
        if not is_part(part):
            return
        forms, whole = forms_of(part), trainable(model)
        for name, parameter in trainable(part).items():
            local = parameter.detach()
            if is_by_feature(name, local):
                local = self._join_parts(local.reshape(len(local), forms, -1), dim=2).flatten(1)
            whole[name].data.copy_(local)
        model.to(self.device)

    def join_features(self, values: Tensor, part: nn.Module) -> Tensor:
        """Numbers [P] of all frequencies from those [P / parts] of each process's part of a model."""
        return self._join_parts(values, dim=0) if is_part(part) else values

    def wait(self) -> None:
        """Return when all processes have made this call."""
        dist.barrier()

    def divided(self, tensors: Mapping[str, Tensor], model: nn.Module) -> tuple[set[str], int]:
        """The names of `tensors` that are divided by features for this part of a model, and `forms_of` it."""
        names = {name for name, tensor in tensors.items() if is_part(model) and is_by_feature(name, tensor)}
        return names, forms_of(model)

    def own_columns(self, tensors: Mapping[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
        """This process's columns of the tensors of a whole `model` that are divided by features."""
        if self.num_parts == 1:
            return dict(tensors)
        forms = forms_of(model)
        return {
            name: columns_of(tensor, forms, self.part_number, self.num_parts) if is_by_feature(name, tensor) else tensor
            for name, tensor in tensors.items()
        }


class SumOfParts(torch.autograd.Function):
    """sum_c f_c by one all-reduce; every process computes the whole loss, so that d loss / d f_c is that of the sum.

    A Partial DTensor does the same, at three times the cost on a CPU for the scores of a small batch.
    """

    @staticmethod
    def forward(ctx: Any, partial: Tensor, group: dist.ProcessGroup) -> Tensor:
        total = partial.clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


def share(num_rows: int, number: int, num_shares: int) -> slice:
    """The rows of share `number` of `num_shares`: each row belongs to one share, and sizes differ by one row at most.

    >>> [share(10, number, 4) for number in range(4)]
    [slice(0, 2, None), slice(2, 5, None), slice(5, 7, None), slice(7, 10, None)]
    """
    return slice(num_rows * number // num_shares, num_rows * (number + 1) // num_shares)


@contextmanager
def joined(*, feature_parallel: int = 1, device: str | torch.device = "auto") -> Iterator[Workers | None]:
    """Connect the processes that torchrun started and yield them as a `group`; None in a single process.

    `feature_parallel` of them divide a model's features, and the groups of these divide the rows of batches. Messages
    go by NCCL between GPUs, one per process, else by gloo. See docs/distributed.md.

        with joined(feature_parallel=2) as group:
            train(model, source, validation_data, settings, group=group)

    >>> with joined() as group:
    ...     group is None
    True
    """
    if not dist.is_torchelastic_launched():
        if feature_parallel != 1:
            raise ValueError(f"feature_parallel={feature_parallel} needs several processes; start them by torchrun.")
        yield None
        return
    if STORE_VARIABLE in os.environ:
        threading.Thread(target=_end_with_launcher, daemon=True).start()
    own = _own_device(str(device))
    store, rank, size = _rendezvous()
    backend = "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    workers = Workers(features=feature_parallel, device=own)
    yield workers
    dist.destroy_process_group()
    del workers.grid  # ends gloo's threads, which may free tensors; at the interpreter's exit that aborts the process


def _rendezvous() -> tuple[Store, int, int]:
    """The store through which processes exchange their addresses, the rank of this one and the number of processes.

    The store is a file where `bochner.cli.launch` has started the processes. torchrun keeps one store for all its
    restarts (torch 2.13), where a process may read the address of one that was killed and wait for it forever: each
    start has its own prefix. Only the machine of the failure counts a restart, so that this is for one machine; for
    several, see `bochner.cli.launch`.
    """
    if STORE_VARIABLE in os.environ:
        size = int(os.environ["WORLD_SIZE"])
        meeting = dist.FileStore(os.environ[STORE_VARIABLE], size)  # type: ignore[attr-defined]
        return meeting, int(os.environ["RANK"]), size
    store, rank, size = next(rendezvous("env://"))
    if size == int(os.environ["LOCAL_WORLD_SIZE"]):
        store = PrefixStore(f"start-{num_restarts()}", store)
    return store, rank, size


def _end_with_launcher() -> None:
    """End this process when its stdin, a pipe from the launcher, is closed: the launcher was killed."""
    os.read(0, 1)
    os._exit(1)


def num_restarts() -> int:
    """How often torchrun has restarted this process."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _own_device(device: str) -> torch.device:
    """The GPU with this process's number on its machine, or the CPU."""
    if not (device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())):
        return torch.device("cpu")
    number = int(os.environ["LOCAL_RANK"])
    if number >= torch.cuda.device_count():
        raise ValueError(
            f"each process needs its own GPU, got {torch.cuda.device_count()} of them for process {number + 1}; "
            "start fewer, or give device='cpu'."
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
