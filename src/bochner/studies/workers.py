"""Where the cells of a study are measured: in this process, in processes of this machine, or on a Dask cluster.

Only the main process writes the results file. Workers receive the name of a study, a context and a cell.
"""

from __future__ import annotations

import errno
import logging
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import torch
from filelock import FileLock
from tqdm import tqdm

from bochner import __version__, checks
from bochner.stages import fingerprint
from bochner.studies.results_file import FailedCellsError, Result, ResultsFile

logger = logging.getLogger(__name__)

Cell = TypeVar("Cell")
Measure = Callable[[Any], Result]
# Not "fork": a forked copy of a process with threads, such as torch's, may deadlock.
START_METHOD = "forkserver" if "forkserver" in get_all_start_methods() else "spawn"
SECONDS = "cell_seconds"  # the duration of a cell, kept in its result until it is stored
# If files cannot be written, the cause is not the cell, and the study stops.
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@dataclass(frozen=True)
class Context:
    """The resources of a cell: a directory of data files, a device, and a directory for intermediate files.

    Without `cache_dir` intermediate files are temporary.
    """

    data_dir: Path
    device: str = "cpu"
    cache_dir: Path | None = None


@contextmanager
def one_at_a_time(directory: Path, name: str) -> Iterator[None]:
    """Hold the lock `name` of a directory that several workers use: they wait for the first to finish the same stage,
    and then find its result."""
    locks = directory / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"{fingerprint({'name': name})[:16]}.lock"):
        yield


class WorkerPool(Protocol):
    """Measures cells in other processes. A future fails if its cell fails or if the process that measures it dies."""

    def submit(self, cell: Any) -> Future[Result]: ...

    def __enter__(self) -> WorkerPool: ...

    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class WorkerOptions:
    """This process alone; or several `workers` of this machine; or those of the Dask scheduler at address `cluster`.

    Workers repeat a failed cell up to `retries` times. They can only run registered studies.

    >>> WorkerOptions(workers=4, cluster="tcp://10.0.0.1:8786")
    Traceback (most recent call last):
    ValueError: workers must be 1 with cluster 'tcp://10.0.0.1:8786', which has its own, got 4.
    """

    workers: int = 1
    cluster: str | None = None
    retries: int = 2

    def __post_init__(self) -> None:
        checks.nonnegative_int("retries", self.retries)
        if checks.positive_int("workers", self.workers) > 1 and self.cluster is not None:
            raise ValueError(f"workers must be 1 with cluster {self.cluster!r}, which has its own, got {self.workers}.")

    def pool(self, study: str, context: Context) -> WorkerPool | None:
        """A pool of workers, None for this process alone.

        Workers of this machine share `context.cache_dir`; intermediate files of a cluster's workers are temporary.
        """
        context = replace(context, data_dir=context.data_dir.resolve())
        if self.cluster is not None:
            return DaskWorkers(StudyMeasure(study, replace(context, cache_dir=None)), address=self.cluster)
        return LocalWorkers(StudyMeasure(study, context), count=self.workers) if self.workers > 1 else None

    def provenance(self) -> dict[str, Any]:
        """What a run records besides the machine, nothing for this process alone. Addresses may name a machine."""
        if self.cluster is not None:
            return {"workers": "of a Dask cluster, on other machines"}
        return {"workers": self.workers} if self.workers > 1 else {}


@dataclass(frozen=True)
class StudyMeasure:
    """The measure of a registered study as plain data, to be sent to another process; never code.

    A process with another version of this package raises an error.

    >>> from bochner.studies.map_error import Cell
    >>> sorted(StudyMeasure("map-error", Context(Path("data")))(Cell("orthogonal", num_features=64, seed=0)))
    ['cell_seconds', 'error', 'family', 'kernel']
    """

    study: str
    context: Context
    version: str = field(default=__version__)

    def __call__(self, cell: Any) -> Result:
        if self.version != __version__:
            raise RuntimeError(f"bochner {self.version} called a worker with {__version__}; install the same version.")
        return timed(_prepared(self.study, self.context), cell)


@lru_cache(maxsize=1)
def _prepared(study: str, context: Context) -> Measure:
    """Kept between cells: many studies read their data here."""
    from bochner.studies.registry import study_named  # imports every study, so only where cells are measured

    return study_named(study).prepare(context)


def timed(measure: Measure, cell: Any) -> Result:
    """The result of a cell with the seconds it took, which `measure_cells` stores beside it."""
    start = time.perf_counter()
    result = measure(cell)
    return {**result, SECONDS: time.perf_counter() - start}


# -- the loop over cells ---------------------------------------------------------------------------------------

Outcome = tuple[Any, Result | BaseException]
"""A cell, and its result or the error of its last attempt."""


def measure_cells(
    cells: Sequence[Cell],
    measure: Callable[[list[Cell]], Iterable[Outcome]],
    results: ResultsFile[Cell],
    *,
    describe: Callable[[Cell], str] = str,
    verbose: bool | None = None,
    device: str = "cpu",
) -> int:
    """Measure the cells that `results` does not contain, store each result at once, and return their number.

    If a cell fails, this is logged, the others are measured, and an error is raised at the end. An error in writing the
    results is raised at once. `verbose` None shows a progress bar on a terminal only.
    """
    missing = [cell for cell in dict.fromkeys(cells) if results.get(cell) is None]
    failed: dict[object, str] = {}
    with tqdm(total=len(missing), unit="cell", disable=None if verbose is None else not verbose) as bar:
        for cell, outcome in measure(missing):
            if isinstance(outcome, BaseException):
                failed[cell] = error_text(outcome)
            else:
                seconds = outcome.pop(SECONDS, None)
                results.add(cell, outcome, seconds=seconds, device=device)
            bar.set_description(describe(cell))
            bar.update()
    if failed:
        raise FailedCellsError(failed, num_cells=len(missing), path=results.path)
    return len(missing)


def measure_here(cells: Iterable[Any], measure: Measure) -> Iterator[Outcome]:
    """One cell after the other in this process. A failed cell is not repeated, since it would fail in the same way."""
    for cell in cells:
        result: Result | BaseException
        try:
            result = timed(measure, cell)
        except Exception as error:  # whatever the error, the others are measured
            _raise_write_error(error)
            logger.warning("%s failed: %s", cell, error_text(error))
            result = error
        yield cell, result


def measure_by(pool: WorkerPool, cells: Iterable[Any], *, retries: int) -> Iterator[Outcome]:
    """Measure all cells by the workers of `pool`, and repeat failed ones up to `retries` times."""
    running = {pool.submit(cell): (cell, 1) for cell in cells}
    while running:
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            cell, attempt = running.pop(future)
            error = future.exception()
            if error is None:
                yield cell, future.result()
                continue
            _raise_write_error(error)
            again = attempt <= retries
            logger.warning("%s failed, attempt %d%s: %s", cell, attempt, ", repeated" if again else "", error)
            if again:
                running[pool.submit(cell)] = cell, attempt + 1
            else:
                yield cell, error


def error_text(error: BaseException) -> str:
    """The message, with the type of the error unless it is RuntimeError.

    >>> error_text(KeyError("X_train")), error_text(RuntimeError("out of memory"))
    ("KeyError: 'X_train'", 'out of memory')
    """
    return str(error) if type(error) is RuntimeError else f"{type(error).__name__}: {error}"


def _raise_write_error(error: BaseException) -> None:
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS:
        raise error


# -- processes of this machine ---------------------------------------------------------------------------------


class LocalWorkers:
    """`count` processes that share the threads of this one; each has a thread here that waits for its results.

    >>> from bochner.studies.map_error import Cell
    >>> with LocalWorkers(StudyMeasure("map-error", Context(Path("data"))), count=1) as workers:
    ...     workers.submit(Cell("orthogonal", num_features=64, seed=0)).result()["family"]
    'Fourier, dense'
    """

    def __init__(self, measure: Measure, *, count: int) -> None:
        num_threads = max(1, torch.get_num_threads() // count)
        self._workers = [_Worker(measure, num_threads=num_threads) for _ in range(count)]
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(count)

    def submit(self, cell: Any) -> Future[Result]:
        return self._threads.submit(self._measure, cell)

    def _measure(self, cell: Any) -> Result:
        worker = self._idle.get()
        try:
            return worker.measure(cell)
        finally:
            self._idle.put(worker)

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown()


class _Worker:
    """A process and a pipe to it, started with its first cell and restarted if it dies. `measure` must be
    importable."""

    def __init__(self, measure: Measure, *, num_threads: int) -> None:
        self._measure, self._num_threads = measure, num_threads
        self._process: BaseProcess | None = None
        self._pipe: Connection

    def measure(self, cell: Any) -> Result:
        if self._process is None:
            self._start()
        try:
            self._pipe.send(cell)
            outcome = self._pipe.recv()
        except (EOFError, ConnectionError):
            code = self.stop(timeout=5.0)
            raise RuntimeError(f"its process died, exit code {code} (-9: killed, out of memory?).") from None
        if isinstance(outcome, BaseException):
            raise outcome
        result: Result = outcome
        return result

    def stop(self, *, timeout: float = 0.0) -> int | None:
        """Kill the process after `timeout` seconds and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.join(timeout=timeout)
        process.kill()
        process.join()
        return process.exitcode

    def _start(self) -> None:
        context: Any = get_context(START_METHOD)
        if START_METHOD == "forkserver":
            context.set_forkserver_preload(["bochner.studies.registry"])  # imports once for all workers
        self._pipe, worker_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(worker_end, self._measure, self._num_threads), daemon=True)
        self._process.start()
        worker_end.close()  # otherwise the pipe would stay open after the process ends


def _serve(pipe: Connection, measure: Measure, num_threads: int) -> None:
    """Receive cells and send results until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process; the main one stops its workers
    torch.set_num_threads(num_threads)
    while True:
        try:
            pipe.send(_attempt(measure, pipe.recv()))
        except (EOFError, ConnectionError):
            return


def _attempt(measure: Measure, cell: Any) -> Result | BaseException:
    try:
        return measure(cell)
    except OSError as error:
        return OSError(error.errno, str(error)) if error.errno in WRITE_ERRORS else RuntimeError(error_text(error))
    except Exception as error:  # as text: not every exception can be pickled
        return RuntimeError(f"{type(error).__name__}: {error}")


# -- a Dask cluster --------------------------------------------------------------------------------------------


class DaskWorkers:
    """The workers that the scheduler at `address` has, and those that join later; `measure` must be importable there.

    If a worker dies, the scheduler assigns its cell to another one, up to `distributed.scheduler.allowed-failures`
    times; then the future fails.
    """

    def __init__(self, measure: Measure, *, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError(f"cluster {address!r} needs Dask: pip install 'bochner[cluster]'.") from error
        self._measure = measure
        self._client: Any = Client(address)
        # With pure=True the scheduler would return the stored failure of a cell instead of repeating it.
        self._executor: Any = self._client.get_executor(pure=False)

    def submit(self, cell: Any) -> Future[Result]:
        return self._executor.submit(self._measure, cell)

    def __enter__(self) -> DaskWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()
