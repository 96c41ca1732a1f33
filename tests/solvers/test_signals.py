"""Signals that end a process take effect when its work has been stored."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from bochner.solvers.signals import HeldSignals


class Ended(BaseException):
    pass


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    def end(*_: object) -> None:
        raise Ended

    # a shell starts background processes with SIGINT ignored
    handlers = {signal.SIGTERM: end, signal.SIGINT: signal.default_int_handler}
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in previous.items():
        signal.signal(number, handler)


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


def test_a_second_interrupt_is_delivered_at_once() -> None:
    reached = 0
    with pytest.raises(KeyboardInterrupt), HeldSignals():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        reached = 1
        signal.raise_signal(signal.SIGINT)
        reached = 2
    assert reached == 1


def test_other_threads_receive_no_signals() -> None:
    """Nor may they set handlers, which Python refuses."""

    def work() -> signal.Handlers:
        with HeldSignals():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as pool:
        assert pool.submit(work).result() is signal.getsignal(signal.SIGTERM)
