"""Workers that are processes of this machine; one that dies takes its cell along, and is replaced."""

from __future__ import annotations

import signal
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import TracebackType
from typing import Any

import torch

from bochner.studies.ledger import Result
from bochner.studies.study import Measure

# Not "fork": a copy of a process with threads, as torch's, may hang.
METHOD = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"


class Worker:
    """One process and a pipe to it, begun with its first cell. `measure` is sent to it: it must be importable there."""

    def __init__(self, measure: Measure, *, num_threads: int) -> None:
        self._measure, self._num_threads = measure, num_threads
        self._process: BaseProcess | None = None
        self._pipe: Connection

    def measure(self, cell: Any) -> Result:
        if self._process is None:
            self._start()
        try:
            self._pipe.send(cell)
            result, error = self._pipe.recv()
        except (EOFError, ConnectionError):
            code = self.stop(patience=5.0)
            raise RuntimeError(f"its process died, exit code {code} (-9: killed, for want of memory?).") from None
        if error is not None:
            raise RuntimeError(error)
        return result

    def stop(self, *, patience: float = 0.0) -> int | None:
        """End the process in whatever it does; its exit code, its own if it ends within `patience` seconds."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.join(timeout=patience)
        process.kill()
        process.join()
        return process.exitcode

    def _start(self) -> None:
        context: Any = get_context(METHOD)
        if METHOD == "forkserver":
            context.set_forkserver_preload(["bochner.studies.registry"])  # all imports once for all workers
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._measure, self._num_threads)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()  # else the end of the process would not end the pipe


def _serve(pipe: Connection, measure: Measure, num_threads: int) -> None:
    """Cells in, results out, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the one that waits for us decides
    torch.set_num_threads(num_threads)
    while True:
        try:
            pipe.send(_attempt(measure, pipe.recv()))
        except (EOFError, ConnectionError):
            return


def _attempt(measure: Measure, cell: Any) -> tuple[Result | None, str | None]:
    try:
        return measure(cell), None
    except Exception as error:  # as text: not every exception can be sent
        return None, f"{type(error).__name__}: {error}"


class LocalCrew:
    """`count` processes that share this one's threads; a thread here waits for each.

    >>> from pathlib import Path
    >>> from bochner.studies.map_error_cells import Cell
    >>> from bochner.studies.study import Where
    >>> from bochner.studies.workers import NamedMeasure
    >>> with LocalCrew(NamedMeasure("map-error", Where(Path("data"))), count=1) as crew:
    ...     crew.submit(Cell("orthogonal", num_features=64, seed=0)).result()["family"]
    'Fourier, dense'
    """

    def __init__(self, measure: Measure, *, count: int) -> None:
        num_threads = max(1, torch.get_num_threads() // count)
        self._workers = [Worker(measure, num_threads=num_threads) for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._waiting = ThreadPoolExecutor(count)

    def submit(self, cell: Any) -> Future[Result]:
        return self._waiting.submit(self._measure, cell)

    def _measure(self, cell: Any) -> Result:
        worker = self._idle.get()
        try:
            return worker.measure(cell)
        finally:
            self._idle.put(worker)

    def __enter__(self) -> LocalCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()
        self._waiting.shutdown()
