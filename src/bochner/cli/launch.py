"""Run one command in several processes: torchrun, started with the command's own options."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from bochner import checks


class LaunchOptions(NamedTuple):
    """The number of processes, the machines they run on, and how often they may be restarted."""

    gpus: int | None = None
    processes: int | None = None
    nodes: int = 1
    rendezvous: str | None = None
    max_restarts: int = 0

    @property
    def is_needed(self) -> bool:
        """Whether several processes are requested and torchrun has not started them yet."""
        return (self.gpus or self.processes) is not None and not dist.is_torchelastic_launched()

    @property
    def uses_cpu(self) -> bool:
        """Whether the device must be set to "cpu" because "auto" would choose a GPU."""
        return self.gpus is None and torch.cuda.is_available()

    def torchrun_arguments(self) -> list[str]:
        """The options of torchrun.

        >>> LaunchOptions(processes=4, max_restarts=2).torchrun_arguments()
        ['--nproc-per-node=4', '--max-restarts=2', '--standalone']
        >>> LaunchOptions(processes=4, nodes=2, rendezvous="10.0.0.1:29400").torchrun_arguments()[2:]
        ['--nnodes=2', '--rdzv-backend=c10d', '--rdzv-endpoint=10.0.0.1:29400', '--rdzv-id=bochner']
        """
        checks.positive_int("nodes", self.nodes)
        restarts = checks.nonnegative_int("max_restarts", self.max_restarts)
        common = [f"--nproc-per-node={self._processes_per_node()}", f"--max-restarts={restarts}"]
        if self.nodes == 1:
            return [*common, "--standalone"]
        if self.rendezvous is None:
            raise ValueError(f"rendezvous is required for nodes={self.nodes}: HOST:PORT of one of the machines.")
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.rendezvous}", "--rdzv-id=bochner"]
        return [*common, f"--nnodes={self.nodes}", *rendezvous]

    def _processes_per_node(self) -> int:
        if self.gpus is None:
            return checks.positive_int("processes", self.processes)
        if self.processes is not None:
            raise ValueError(f"processes must not be given with gpus={self.gpus}: there is one process per GPU.")
        if checks.positive_int("gpus", self.gpus) > torch.cuda.device_count():
            raise ValueError(
                f"gpus must be at most {torch.cuda.device_count()}, the number of GPUs of this machine, got "
                f"{self.gpus}; use --processes to run on its CPU."
            )
        return self.gpus


def launch(command: str, options: dict[str, Any], launch_options: LaunchOptions) -> None:
    """Run `bochner COMMAND` with these options in every process, and exit with the code of the first that fails."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "options.json")
        config.write_text(json.dumps(options))
        # A store of its own for every restart: in a shared one, processes find the addresses of those that died.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
        try:
            main([*launch_options.torchrun_arguments(), "--module", "bochner", command, "--config", str(config)])
        except ChildFailedError as error:
            codes = [failure.exitcode for failure in error.failures.values()]
            raise SystemExit(next((code for code in codes if code > 0), 1)) from None
