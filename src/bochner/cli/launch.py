"""Several processes for one command: torchrun, started with the command's own options."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import distributed as dist

from bochner import checks
from bochner.cli.folder import Options
from bochner.solvers.parallel import Team


class Crew(NamedTuple):
    """How many processes, where, and how often they may be started anew."""

    gpus: int | None = None
    processes: int | None = None
    nodes: int = 1
    rendezvous: str | None = None
    max_restarts: int = 0

    @property
    def is_to_be_started(self) -> bool:
        """Whether processes are asked for that torchrun has not started yet."""
        return (self.gpus or self.processes) is not None and not dist.is_torchelastic_launched()

    def device(self) -> Options:
        """The device where it is not what "auto" means."""
        return {"device": "cpu"} if self.gpus is None and torch.cuda.is_available() else {}

    def arguments(self) -> list[str]:
        """The options of torchrun.

        >>> Crew(processes=4, max_restarts=2).arguments()
        ['--nproc-per-node=4', '--max-restarts=2', '--standalone']
        >>> Crew(processes=4, nodes=2, rendezvous="10.0.0.1:29400").arguments()[2:]
        ['--nnodes=2', '--rdzv-backend=c10d', '--rdzv-endpoint=10.0.0.1:29400', '--rdzv-id=bochner']
        """
        checks.positive_int("nodes", self.nodes)
        count, restarts = self._count(), checks.nonnegative_int("max_restarts", self.max_restarts)
        common = [f"--nproc-per-node={count}", f"--max-restarts={restarts}"]
        if self.nodes == 1:
            return [*common, "--standalone"]
        if self.rendezvous is None:
            raise ValueError(f"rendezvous must be given for nodes={self.nodes}: HOST:PORT of one of them.")
        meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.rendezvous}", "--rdzv-id=bochner"]
        return [*common, f"--nnodes={self.nodes}", *meeting]

    def _count(self) -> int:
        if self.gpus is None:
            return checks.positive_int("processes", self.processes)
        if self.processes is not None:
            raise ValueError(f"processes must not be given with gpus={self.gpus}: each GPU has one.")
        if checks.positive_int("gpus", self.gpus) > torch.cuda.device_count():
            raise ValueError(
                f"gpus must be at most the {torch.cuda.device_count()} of this machine, got {self.gpus}; "
                "use --processes for its CPU."
            )
        return self.gpus


def launch(command: str, options: Options, crew: Crew) -> None:
    """Run `bochner COMMAND` with these options in every process of `crew`, and end as they end."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "options.json")
        config.write_text(json.dumps(options))
        # A new meeting place for every restart: in the shared one, processes find the addresses of those that died.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
        try:
            main([*crew.arguments(), "--module", "bochner", command, "--config", str(config)])
        except ChildFailedError as error:
            codes = [failure.exitcode for failure in error.failures.values()]
            raise SystemExit(next((code for code in codes if code > 0), 1)) from None


@contextlib.contextmanager
def spoken_once(team: Team) -> Iterator[None]:
    """What all processes of a team would print, the first one prints; errors are printed by whoever has them."""
    with contextlib.nullcontext() if team.is_first else contextlib.redirect_stdout(io.StringIO()):
        yield
