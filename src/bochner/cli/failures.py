"""What a user did wrong, in one line instead of a traceback."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch

from bochner.studies.failures import FailedCellsError

# What the library raises for bad arguments, bad files, missing packages, diverged training and cells of studies that
# could not be measured; any other is a bug, and shows its traceback.
MISTAKES = (ValueError, OSError, ImportError, FloatingPointError, FailedCellsError)
INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 + the number of the signal, as shells have it


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Mistakes as `bochner: error: ...` on stderr and exit code 1; warnings in one line too."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *place, **more: warn(str(message))
            yield
            sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except KeyboardInterrupt as error:
        stop(str(error) or "stopped.", INTERRUPTED)
    except BrokenPipeError:
        _settle_output()
        raise SystemExit(PIPE_CLOSED) from None
    except (MemoryError, torch.OutOfMemoryError) as error:
        stop(f"error: out of memory: {_line(error)}; try --memory_budget, or fewer --num_features.", 1)
    except MISTAKES as error:
        stop(f"error: {_line(error)}", 1)


def warn(text: str) -> None:
    print(f"warning: {' '.join(text.split())}", file=sys.stderr)


def stop(text: str, code: int) -> NoReturn:
    _settle_output()
    print(f"bochner: {text}", file=sys.stderr)
    raise SystemExit(code) from None


def _settle_output() -> None:
    """What cannot be written is dropped: else Python tries again on its way out, complains, and exits with 120."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(error: BaseException) -> str:
    """The message without line breaks; a bare OSError says which file in its own words."""
    return " ".join(str(error).split()) or type(error).__name__
