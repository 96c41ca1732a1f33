"""User errors as one line on stderr with an exit code, instead of a traceback."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from bochner.cli.suggestions import with_suggestion
from bochner.studies.results_file import FailedCellsError

logger = logging.getLogger(__name__)

# Raised by the library for invalid arguments, unreadable files, missing packages, diverged training and study cells
# that could not be measured. Anything else is a bug and keeps its traceback.
USER_ERRORS = (ValueError, OSError, ImportError, FloatingPointError, FailedCellsError)
INTERRUPTED, PIPE_CLOSED, TERMINATED = 130, 141, 143  # 128 + the number of the signal, the convention of shells
# Messages of torch when it cannot allocate memory, on Linux, on Windows and on a GPU.
OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


class TerminatedError(BaseException):
    """SIGTERM was received. Like KeyboardInterrupt, not an Exception: nothing within a command may swallow it."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print user errors as `bochner: error: ...` and exit with code 1; log warnings as one line each."""
    try:
        with warnings.catch_warnings(), _sigterm_raised():
            warnings.showwarning = lambda message, *args, **kwargs: logger.warning("%s", message)
            yield
            sys.stdout.flush()  # a full disk or a closed pipe must raise while it can still be reported
    except KeyboardInterrupt as error:
        _exit_by_signal(str(error) or "interrupted.", INTERRUPTED)
    except TerminatedError as error:
        _exit_by_signal(str(error) or "terminated.", TERMINATED)
    except BrokenPipeError:
        _flush_or_discard_stdout()
        raise SystemExit(PIPE_CLOSED) from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, FailedCellsError):
            _exit(f"error: {_one_line(error)}", 1)
        if not _is_out_of_memory(error):
            raise
        _exit(f"error: out of memory: {_one_line(error)}; try --memory_budget, or fewer --n_components.", 1)
    except USER_ERRORS as error:
        _exit(f"error: {with_suggestion(_one_line(error))}", 1)


def _is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY)


@contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Raise SIGTERM as an exception, so that temporary files are removed and the run is reported."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise TerminatedError

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _exit_by_signal(message: str, code: int) -> NoReturn:
    """The first of several processes reports the signal, which all of them receive."""
    if os.environ.get("RANK", "0") != "0":
        raise SystemExit(code) from None
    _exit(message, code)


def _exit(message: str, code: int) -> NoReturn:
    _flush_or_discard_stdout()
    print(f"bochner: {message}", file=sys.stderr)
    raise SystemExit(code) from None


def _flush_or_discard_stdout() -> None:
    """Python flushes stdout again at exit, and exits with code 120 if that fails: discard what cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
