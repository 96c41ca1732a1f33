"""Process groups for tests."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

from bochner.solvers.parallel import Workers
from tests.processes import CONTEXT


def run_ranks(
    work: Callable[..., Any],
    count: int,
    folder: Path,
    *arguments: Any,
    features: int = 1,
    backend: str = "gloo",
    device: str = "cpu",
) -> list[Any]:
    """The results of `work(*arguments, group=group)` in `count` processes; an error of any is an error here."""
    folder.mkdir(parents=True, exist_ok=True)
    join = partial(_join, features=features, backend=backend, device=device)
    meeting, results = folder / "meeting", CONTEXT.SimpleQueue()
    tasks = [
        CONTEXT.Process(target=_run, args=(rank, count, join, str(meeting), results, work, arguments), daemon=True)
        for rank in range(count)
    ]
    for task in tasks:
        task.start()
    found = dict(results.get() for _ in tasks)
    for task in tasks:
        task.join(30)
    failed = [text for ok, text in found.values() if not ok]
    assert not failed, failed[0]
    return [found[rank][1] for rank in range(count)]


def _join(rank: int, count: int, meeting: str, *, features: int, backend: str, device: str) -> Workers:
    dist.init_process_group(backend, init_method=f"file://{meeting}", rank=rank, world_size=count)
    return Workers(features=features, device=torch.device(device))


def _run(
    rank: int,
    count: int,
    join: Callable[..., Workers],
    meeting: str,
    results: Any,
    work: Callable[..., Any],
    arguments: Any,
) -> None:
    torch.set_num_threads(1)
    try:
        result = (True, work(*arguments, group=join(rank, count, meeting)))
    except BaseException:
        result = (False, traceback.format_exc())
    results.put((rank, result))
