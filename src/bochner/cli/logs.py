"""Log output of the commands: plain lines of bochner's loggers, on stdout up to INFO, on stderr from WARNING on."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

BOCHNER = logging.getLogger("bochner")


class ConsoleHandler(logging.Handler):
    """Writes to whatever `sys.stdout` and `sys.stderr` are at the time; a stream that cannot be written is an error.

    A warning is shown once: every fold of a cross-validation repeats those about its columns.
    """

    def __init__(self) -> None:
        super().__init__()
        self._warnings: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = self.format(record)
        if record.levelno < logging.WARNING:
            print(message, flush=True)
        elif message not in self._warnings:
            self._warnings.add(message)
            print(f"{record.levelname.lower()}: {' '.join(message.split())}", file=sys.stderr)


@contextmanager
def console_logging() -> Iterator[None]:
    """Show the log records of bochner's modules on the console."""
    handler = ConsoleHandler()
    BOCHNER.addHandler(handler)
    try:
        with logging_at(logging.INFO):
            yield
    finally:
        BOCHNER.removeHandler(handler)


@contextmanager
def logging_at(level: int) -> Iterator[None]:
    """Drop records below `level`."""
    previous = BOCHNER.level
    BOCHNER.setLevel(level)
    try:
        yield
    finally:
        BOCHNER.setLevel(previous)


def labelled(label: str, text: str) -> str:
    """A line with its label in a separate column.

    >>> labelled("task", "classify")
    'task      classify'
    """
    return f"{label:<9} {text}"
