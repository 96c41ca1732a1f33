"""The processes that torchrun starts, as a team."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from bochner import checks
from bochner.data.blocks import Block, take
from bochner.models.criteria import Scores
from bochner.models.heads import FeatureModel
from bochner.solvers.checkpoint import FILE_NAME, read_checkpoint, trainable
from bochner.solvers.parallel.checkpoint import read_shared, write_shared
from bochner.solvers.parallel.group import ALONE, Found, Team, further, working
from bochner.solvers.parallel.parts import (
    columns_of,
    forms_of,
    is_by_feature,
    is_part,
    split_model,
    split_preconditioner,
)
from bochner.solvers.preconditioner import Preconditioner


class Mesh(Team):
    """R = data x features processes, process r at row r // features and column r % features.

    Each row of the grid has its share of a batch, each column its features; then

        scores = sum over a row's processes of z_c(x) Theta_c + bias,     gradient = sum over a column's processes.

    Two messages a step: the scores [n, C] of a share (of [n, r] numbers with a bottleneck) along rows, and the gradient
    of a part, C D / features numbers, along columns. By the collectives of torch.distributed.
    """

    def __init__(self, *, features: int = 1, device: torch.device | None = None) -> None:
        """For the process group that is there; each process calls this."""
        size = dist.get_world_size()
        if size % checks.positive_int("features", features):
            raise ValueError(f"features must divide the number of processes, {size}, got {features}.")
        self.device = torch.device("cpu") if device is None else device
        self.grid: DeviceMesh = init_device_mesh(
            self.device.type, (size // features, features), mesh_dim_names=("data", "features")
        )
        self.is_first, self.num_processes = dist.get_rank() == 0, size
        self.num_shares, self.num_parts = size // features, features
        self.share_number, self.part_number = self.grid.get_local_rank("data"), self.grid.get_local_rank("features")

    def __deepcopy__(self, memo: object) -> Self:
        """Copies of a head belong to the same processes."""
        return self

    def share(self, block: Block) -> Block:
        return take(block, share(len(block.y), self.share_number, self.num_shares))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        if self.num_shares == 1:
            return
        group = self.grid.get_group("data")
        for p in parameters:
            if p.grad is None:  # no row of this batch was ours
                p.grad = torch.zeros_like(p)
        works = [dist.all_reduce(p.grad, group=group, async_op=True) for p in parameters if p.grad is not None]
        for work in works:
            assert work is not None
            work.wait()

    def sum_over_features(self, partial: Tensor) -> Tensor:
        """The sum of what the processes of a row hold, on all of them; its gradient is each one's gradient."""
        total: Tensor = SumOfParts.apply(partial, self.grid.get_group("features"))
        return total

    def join(self, scores: Scores) -> Scores:
        weight = None if scores.weight is None else self._joined(scores.weight)
        log_p, entropy, wrong, squared = map(self._joined, (scores.log_p, scores.entropy, scores.wrong, scores.squared))
        return Scores(log_p, entropy, wrong, squared, weight)

    def _joined(self, rows: Tensor) -> Tensor:
        """All shares' rows, one share after the other; padded on the way, since shares need not be equal."""
        group = self.grid.get_group("data")
        count = torch.tensor([len(rows)], device=self.device)
        counts = [torch.empty_like(count) for _ in range(self.num_shares)]
        dist.all_gather(counts, count, group=group)
        longest = max(int(each) for each in counts)
        padded = nn.functional.pad(rows.to(self.device), (0, longest - len(rows)))
        found = [torch.empty_like(padded) for _ in range(self.num_shares)]
        if longest:
            dist.all_gather(found, padded, group=group)
        return torch.cat([part[: int(each)] for part, each in zip(found, counts, strict=True)]).to(rows.device)

    def agree(self, value: float) -> float:
        number = torch.tensor([value], dtype=torch.float64)  # on the CPU: a GPU goes on with its work meanwhile
        dist.broadcast(number, src=0)
        return float(number)

    def align(self, model: nn.Module) -> None:
        for parameter in model.parameters():
            values = parameter.data.contiguous()
            dist.broadcast(values, src=0)
            parameter.data.copy_(values)

    def split(self, model: nn.Module, preconditioner: Preconditioner | None) -> tuple[nn.Module, Preconditioner | None]:
        whole = self._shared(preconditioner, model)
        if self.num_parts == 1:
            return model, whole
        part = split_model(model, self)
        return part, None if whole is None else split_preconditioner(whole, part, self)

    def _shared(self, first: Preconditioner | None, model: nn.Module) -> Preconditioner | None:
        """The preconditioner of the first process, on all."""
        count = int(self.agree(-1 if first is None else len(first.values)))
        if count < 0:
            return None
        assert isinstance(model, FeatureModel)
        head, width = model.head, model.feature_map.num_features + 1
        values = head.bias.new_empty(count) if first is None else first.values
        vectors = head.bias.new_empty(count, width) if first is None else first.vectors
        for tensor in (values, vectors) if count else ():
            dist.broadcast(tensor, src=0)
        return Preconditioner(head, vectors, values, self.agree(0.0 if first is None else first.floor))

    def gather(self, part: nn.Module, model: nn.Module) -> None:
        if not is_part(part):
            return
        forms, whole = forms_of(part), trainable(model)
        for name, mine in trainable(part).items():
            whole[name].data.copy_(self._whole(mine.detach(), forms) if is_by_feature(name, mine) else mine.detach())
        model.to(self.device)

    def _whole(self, mine: Tensor, forms: int) -> Tensor:
        """The columns [lead, D] of all parts from those of each."""
        lead = len(mine)
        local = mine.reshape(lead, forms, -1)
        found = [torch.empty_like(local) for _ in range(self.num_parts)]
        dist.all_gather(found, local.contiguous(), group=self.grid.get_group("features"))
        return torch.cat(found, dim=2).flatten(1)

    def join_features(self, values: Tensor, part: nn.Module) -> Tensor:
        if not is_part(part):
            return values
        found = [torch.empty_like(values) for _ in range(self.num_parts)]
        dist.all_gather(found, values.contiguous(), group=self.grid.get_group("features"))
        return torch.cat(found)

    def wait(self) -> None:
        dist.barrier()

    def write_checkpoint(
        self, checkpoint_dir: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], model: nn.Module
    ) -> None:
        by_feature = {name for name, tensor in tensors.items() if is_part(model) and is_by_feature(name, tensor)}
        write_shared(checkpoint_dir, tensors, state, by_feature=by_feature, forms=forms_of(model), mesh=self)
        if self.is_first:
            (checkpoint_dir / FILE_NAME).unlink(missing_ok=True)

    def read_checkpoint(self, checkpoint_dir: Path, fingerprint: Mapping[str, Any], model: nn.Module) -> Found | None:
        alone = read_checkpoint(checkpoint_dir, fingerprint)
        if alone is not None and self.num_parts > 1:
            alone = (self._columns(alone[0], forms_of(model)), alone[1])
        return further(alone, read_shared(checkpoint_dir, fingerprint, mesh=self))

    def _columns(self, tensors: Mapping[str, Tensor], forms: int) -> dict[str, Tensor]:
        return {
            name: columns_of(tensor, forms, self.part_number, self.num_parts) if is_by_feature(name, tensor) else tensor
            for name, tensor in tensors.items()
        }


class SumOfParts(torch.autograd.Function):
    """sum_c f_c, by one message; every process goes on to the whole loss, so that d loss / d f_c is that of the sum.

    A DTensor that is Partial gives the same, at three times the cost on a CPU for scores of a small batch.
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
    """The rows of share `number`: together all shares are each row once, and none is a row longer than another.

    >>> [share(10, number, 4) for number in range(4)]
    [slice(0, 2, None), slice(2, 5, None), slice(5, 7, None), slice(7, 10, None)]
    """
    return slice(num_rows * number // num_shares, num_rows * (number + 1) // num_shares)


@contextmanager
def joined(*, feature_parallel: int = 1, device: str | torch.device = "auto") -> Iterator[Team]:
    """The team of all processes that torchrun started, for what happens within; a process on its own works alone.

    `feature_parallel` of them share a model's features, and as many such groups as there are share the rows of
    batches. Messages go by NCCL between GPUs, one a process, else by gloo. See docs/distributed.md.

        with joined(feature_parallel=2):
            KernelClassifier(solver="sgd").fit(source)

    >>> with joined() as team:
    ...     team.num_shares, team.is_first
    (1, True)
    """
    if not dist.is_torchelastic_launched():
        if feature_parallel != 1:
            raise ValueError(f"feature_parallel={feature_parallel} needs several processes; start them by torchrun.")
        yield ALONE
        return
    from bochner.solvers.parallel.mesh import Mesh

    own = _own_device(str(device))
    store, rank, size = _meeting_place()
    backend = "cpu:gloo,cuda:nccl" if own.type == "cuda" else "gloo"
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    with working(Mesh(features=feature_parallel, device=own)) as team:
        yield team
    dist.destroy_process_group()


def _meeting_place() -> tuple[Store, int, int]:
    """Where processes tell each other their addresses, this one's number and how many there are.

    torchrun keeps one place for all its restarts (seen in torch 2.13), where a process may find the address of one that
    was killed and wait for it for ever: each start has its own part. Only the machine of the failure counts a restart,
    so that this is for one machine; for several, see `bochner.cli.launch`.
    """
    store, rank, size = next(rendezvous("env://"))
    if size == int(os.environ["LOCAL_WORLD_SIZE"]):
        store = PrefixStore(f"start-{num_restarts()}", store)
    return store, rank, size


def num_restarts() -> int:
    """How often torchrun has started this process anew."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def _own_device(device: str) -> torch.device:
    """The GPU of this process's number on its machine, or the CPU."""
    if not (device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())):
        return torch.device("cpu")
    number = int(os.environ["LOCAL_RANK"])
    if number >= torch.cuda.device_count():
        raise ValueError(
            f"each process needs a GPU of its own, got {torch.cuda.device_count()} of them for process {number + 1}; "
            "start fewer, or give device='cpu'."
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
