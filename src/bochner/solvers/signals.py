"""Signals that end a process, deferred until its work has been stored."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

ENDING = (signal.SIGTERM, signal.SIGINT)


class HeldSignals:
    """SIGTERM and SIGINT within the block are only recorded in `received`; `deliver`, or the end of the block, sends
    them to the handlers that were there before. A second SIGINT is delivered at once. A signal takes precedence over an
    error: another of several processes may have ended by the same signal before, which is an error of this one.

    It has no effect outside the main thread, which alone receives signals, and for ignored signals.

    >>> with HeldSignals() as held:
    ...     held.received is None
    True
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._hold)
        return self

    def __exit__(self, *error: object) -> None:
        if self.received is not None:
            self.deliver()
        self._restore()

    def deliver(self) -> None:
        """Send the signal that was received, or SIGTERM if that was another process's, to its former handler."""
        self._restore()
        number, self.received = self.received or signal.SIGTERM, None
        signal.raise_signal(number)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        again = number == signal.SIGINT == self.received
        self.received = number
        if again:
            self.deliver()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
