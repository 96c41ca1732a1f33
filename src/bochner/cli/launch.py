"""Run one command in several processes: on one machine by this module, on several by torchrun."""

from __future__ import annotations

import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from bochner import checks
from bochner.cli.errors import INTERRUPTED, TERMINATED, TerminatedError
from bochner.solvers.parallel.workers import STORE_VARIABLE
from bochner.temporary import remove_abandoned

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.05
# A process that is asked to end writes a checkpoint after its current block of rows. Slurm and Kubernetes kill 30 s
# after SIGTERM by default.
STOP_SECONDS = 25.0
# Processes end together, after a checkpoint. If one has ended for another reason, the others may wait for it in vain.
LAST_SECONDS = 5.0


class LaunchOptions(NamedTuple):
    """The number of processes, the machines they run on, and how often they may be restarted."""

    gpus: int | None = None
    processes: int | None = None
    nodes: int = 1
    rendezvous: str | None = None
    run_id: str | None = None
    max_restarts: int = 0
    oversubscribe: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether several processes are requested and have not been started yet."""
        return (self.gpus or self.processes) is not None and not dist.is_torchelastic_launched()

    @property
    def uses_cpu(self) -> bool:
        """Whether the device must be set to "cpu" because "auto" would choose a GPU."""
        return self.gpus is None and torch.cuda.is_available()

    def processes_per_node(self) -> int:
        """The number of processes of this machine, or an error if it cannot run them."""
        checks.nonnegative_int("max_restarts", self.max_restarts)
        if checks.positive_int("nodes", self.nodes) > 1:
            if self.rendezvous is None:
                raise ValueError(f"rendezvous is required for nodes={self.nodes}: HOST:PORT of one of the machines.")
            if self.run_id is None:
                raise ValueError(
                    f"run_id is required for nodes={self.nodes}: the same random text on every machine, such as "
                    f"{secrets.token_hex(16)}."
                )
        if self.gpus is not None:
            if self.processes is not None:
                raise ValueError(f"processes must not be given with gpus={self.gpus}: there is one process per GPU.")
            if checks.positive_int("gpus", self.gpus) > torch.cuda.device_count():
                raise ValueError(
                    f"gpus must be at most {torch.cuda.device_count()}, the number of GPUs of this machine, got "
                    f"{self.gpus}; use --processes to run on its CPU."
                )
            return self.gpus
        count, cores = checks.positive_int("processes", self.processes), num_cores()
        if count > cores and not self.oversubscribe:
            raise ValueError(
                f"processes must be at most {cores}, the number of cores that this process may use, got {count}; give "
                "--oversubscribe to start more."
            )
        return count

    def torchrun_arguments(self) -> list[str]:
        """The options of torchrun for several machines.

        >>> options = LaunchOptions(processes=1, nodes=2, rendezvous="10.0.0.1:29400", run_id="9d1f")
        >>> options.torchrun_arguments()[2:]
        ['--nnodes=2', '--rdzv-backend=c10d', '--rdzv-endpoint=10.0.0.1:29400', '--rdzv-id=9d1f']
        """
        common = [f"--nproc-per-node={self.processes_per_node()}", f"--max-restarts={self.max_restarts}"]
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={self.rendezvous}", f"--rdzv-id={self.run_id}"]
        return [*common, f"--nnodes={self.nodes}", *rendezvous]


def num_cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def launch(command: str, options: dict[str, Any], launch_options: LaunchOptions) -> None:
    """Run `bochner COMMAND` with these options in every process, and exit with the code of the first that fails."""
    count = launch_options.processes_per_node()
    with tempfile.TemporaryDirectory(prefix="bochner-launch-") as directory:
        config = Path(directory, "options.json")
        config.write_text(json.dumps(options))
        words = ["bochner", command, "--config", str(config)]
        if launch_options.nodes > 1:
            code = _torchrun(words, launch_options)
        else:
            code = _run_here(words, count, Path(directory, "store"), max_restarts=launch_options.max_restarts)
    if code:
        raise SystemExit(code)


def _run_here(words: list[str], count: int, store: Path, *, max_restarts: int) -> int:
    """Run the command in `count` processes of this machine; when one fails, all are restarted, `max_restarts` times.

    The processes find each other through a file that only this user can read, and their messages stay on the loopback
    interface. Each has a pipe from this process as its stdin, which closes when this process dies.
    """
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1" if count > 1 else str(num_cores())),
        "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count),
        "TORCHELASTIC_RUN_ID": secrets.token_hex(16),
        **{name: loopback_interface() for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")},
    }
    failed, code = 0, 0
    for restart in range(max_restarts + 1):
        environment |= {STORE_VARIABLE: f"{store}-{restart}", "TORCHELASTIC_RESTART_COUNT": str(restart)}
        ranks = []
        try:
            for rank in range(count):
                own = {**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)}
                # -P: a module of the working directory must not take the place of an installed one
                ranks.append(subprocess.Popen([sys.executable, "-P", "-m", *words], env=own, stdin=subprocess.PIPE))
            failed, code = _wait(ranks)
        except (KeyboardInterrupt, TerminatedError) as error:  # let them write a checkpoint, which the first reports
            for process in ranks:
                process.terminate()
            _wait_for_all(ranks)
            if ranks[:1] and ranks[0].poll() in (TERMINATED, INTERRUPTED):  # it has reported it
                return TERMINATED if isinstance(error, TerminatedError) else INTERRUPTED
            raise
        finally:
            for process in ranks:  # after a failure, the others would wait forever
                process.kill()
                process.communicate()
            remove_abandoned()
        if code == 0:
            return 0
        if restart < max_restarts:
            logger.warning("a process failed with exit code %d: restart %d of %d.", code, restart + 1, max_restarts)
    if code < 0:  # it could not report anything itself
        raise ChildProcessError(
            f"process {failed} of 0 to {count - 1} was ended by {signal.Signals(-code).name}, for lack of memory for "
            "example; the same command resumes from the last checkpoint."
        )
    return code


def _wait(ranks: list[subprocess.Popen[bytes]]) -> tuple[int, int]:
    """The number of the first process that fails and its exit code, or 0, 0 when all have ended well."""
    while True:
        codes = [process.poll() for process in ranks]
        failed = next(((rank, code) for rank, code in enumerate(codes) if code), (0, 0))
        if None not in codes or failed[1]:
            return failed
        time.sleep(POLL_SECONDS)


def _wait_for_all(ranks: list[subprocess.Popen[bytes]]) -> None:
    """Wait until every process has ended, STOP_SECONDS at most, and LAST_SECONDS after the first."""
    end = time.monotonic() + STOP_SECONDS
    is_first = True
    while time.monotonic() < end:
        codes = [process.poll() for process in ranks]
        if None not in codes:
            return
        if is_first and any(code is not None for code in codes):
            end, is_first = min(end, time.monotonic() + LAST_SECONDS), False
        time.sleep(POLL_SECONDS)


def loopback_interface() -> str:
    """The name of the interface with the address 127.0.0.1: "lo" on Linux, "lo0" on macOS."""
    names = [name for _, name in socket.if_nameindex()]
    return next((name for name in names if name in ("lo", "lo0")), "lo")


def _torchrun(words: list[str], launch_options: LaunchOptions) -> int:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main

    logger.warning(
        "nodes=%d: the processes listen on all network interfaces, without authentication or encryption. Anyone who "
        "reaches their ports can run code as this user: use a network that only trusted machines can reach.",
        launch_options.nodes,
    )
    # A separate store for every restart: in a shared one, processes would find the addresses of dead ones.
    os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    try:
        main([*launch_options.torchrun_arguments(), "--module", *words])
    except ChildFailedError as error:
        return next((failure.exitcode for failure in error.failures.values() if failure.exitcode > 0), 1)
    return 0
