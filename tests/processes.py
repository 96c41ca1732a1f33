"""New processes in a tenth of a second: forked from a server that has imported torch and the package, and nothing else.

A process that a user starts imports them itself, for seconds; that is left to tests of imports and of commands.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch

import bochner.estimators  # noqa: F401

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.processes"])


def run_apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `work(*arguments)` in a process of its own; an error there is an error here."""
    receiver, sender = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_send, args=(sender, work, arguments), daemon=True)
    process.start()
    sender.close()
    ok, result = receiver.recv()  # EOFError if it ends without a result
    process.join()
    assert ok, result
    return result


class Ended(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run_code(code: str, *arguments: object) -> Ended:
    """The exit code and the output of a program in a process of its own."""
    return Ended(*run_apart(_execute, code, [str(argument) for argument in arguments]))


def _execute(code: str, arguments: list[str]) -> tuple[int, str, str]:
    sys.argv[1:] = arguments
    returncode = 0
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            exec(code, {"__name__": "__main__"})
        except SystemExit as stop:
            returncode = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        except BaseException:
            traceback.print_exc()
            returncode = 1
    return returncode, out.getvalue(), err.getvalue()


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker processes of `bochner.speech` are forked from the server, too, instead of importing everything."""
    monkeypatch.setattr("bochner.speech.runtime.get_context", lambda method: CONTEXT)


def run_until_killed(work: Callable[..., Any], *arguments: Any) -> None:
    """Run `work(*arguments)`, which ends by SIGKILL, in a process of its own."""
    process = CONTEXT.Process(target=_alone, args=(work, arguments), daemon=True)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL


def kill_after(module: ModuleType, name: str, is_last: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Kill this process after the first call of a function for whose arguments `is_last` holds."""
    function = getattr(module, name)

    def last(*arguments: Any, **options: Any) -> Any:
        result = function(*arguments, **options)
        if is_last(*arguments, **options):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, name, last)


def _alone(work: Callable[..., Any], arguments: Any) -> Any:
    torch.set_num_threads(1)
    return work(*arguments)


def _send(sender: Any, work: Callable[..., Any], arguments: Any) -> None:
    try:
        sender.send((True, _alone(work, arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))
