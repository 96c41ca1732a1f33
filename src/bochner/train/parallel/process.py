"""The processes that torchrun starts, as a team."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from bochner.train.parallel.team import ALONE, Team, working


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
    from bochner.train.parallel.mesh import Mesh

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
