"""Signals that end a process take effect when its work has been stored."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from bochner.solvers.signals import HeldSignals


class Ended(BaseException):
    pass


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def end(*_: object) -> None:
        raise Ended

    previous = signal.signal(signal.SIGTERM, end)
    yield
    signal.signal(signal.SIGTERM, previous)


def test_a_signal_takes_effect_at_the_end_of_the_block() -> None:
    reached = False
    with pytest.raises(Ended), HeldSignals():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        reached = True
    assert reached


def test_a_signal_takes_precedence_over_an_error() -> None:
    with pytest.raises(Ended), HeldSignals():  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        raise RuntimeError("connection closed by peer")


def test_errors_without_a_signal_stay() -> None:
    with pytest.raises(RuntimeError), HeldSignals():
        raise RuntimeError
    with pytest.raises(Ended):
        signal.raise_signal(signal.SIGTERM)


def test_delivered_once() -> None:
    with pytest.raises(Ended), HeldSignals() as held:  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        held.deliver()
