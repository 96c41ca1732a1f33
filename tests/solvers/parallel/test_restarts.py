"""torchrun's agent: a killed process is restarted with the others, and the model is the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from bochner.solvers import step
from bochner.solvers.parallel import Workers, joined
from bochner.solvers.parallel.workers import _end_with_launcher, num_restarts
from bochner.solvers.sgd import train
from bochner.solvers.step import take_steps
from tests.solvers.parallel.ranks import run_ranks
from tests.solvers.parallel.test_checkpoints import LONG
from tests.solvers.parallel.test_equality import linear, numbers, sources


def launch(name: str) -> LaunchConfig:
    return LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=2, run_id=name, rdzv_backend="c10d", max_restarts=1,
        rdzv_endpoint="localhost:0", start_method="forkserver", monitor_interval=0.05,
    )  # fmt: skip


def undisturbed(group: Workers) -> dict[str, np.ndarray]:
    model = linear()
    train(model, *sources(), LONG, verbose=False, group=group)
    return numbers(model)


def killed_once(folder: Path) -> tuple[int, dict[str, np.ndarray]]:
    """The last process dies before its eighth step, the third of the second epoch."""
    torch.set_num_threads(1)
    model, steps = linear(), iter(range(7))
    with joined() as group:

        def step_or_die(*arguments: Any, **more: Any) -> None:
            if next(steps, None) is None and num_restarts() == 0 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            take_steps(*arguments, **more)

        assert group is not None
        assert group.num_shares == 2
        with patch.object(step, "take_steps", step_or_die):
            options = {"checkpoint_dir": folder, "checkpoint_seconds": 0.0, "verbose": False}
            train(model, *sources(), LONG, **options, group=group)
    return num_restarts(), numbers(model)


def num_threads_beside_joined() -> tuple[int, int, int]:
    torch.set_num_threads(1)
    tasks = Path("/proc/self/task")
    before = len(list(tasks.iterdir()))
    with joined() as group:
        assert group is not None
        group.sum(torch.ones(3))
        within = len(list(tasks.iterdir()))
    return before, within, len(list(tasks.iterdir()))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted by /proc")
def test_no_thread_is_left_that_might_free_tensors_at_the_interpreters_exit() -> None:
    """One that did would end the process by "terminate called without an active exception"."""
    for before, within, after in elastic_launch(launch("threads"), num_threads_beside_joined)().values():
        assert after == before < within


def test_a_killed_process_is_started_anew_and_the_model_is_bit_equal(tmp_path: Path) -> None:
    found = elastic_launch(launch("restarts"), killed_once)(tmp_path / "run")
    expected = run_ranks(undisturbed, 2, tmp_path / "whole")
    for rank in range(2):
        restarts, mine = found[rank]
        assert restarts == 1
        assert all(np.array_equal(mine[name], values) for name, values in expected[rank].items())


def test_a_process_ends_with_its_launcher() -> None:
    (stdin, launcher), (stdout, writer) = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        signal.alarm(60)  # rather than to wait forever
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(launcher)
        _end_with_launcher()
    os.close(launcher)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    for descriptor in (stdin, stdout, writer):
        os.close(descriptor)
