"""New processes in a tenth of a second: forked from a server that has imported torch and the package, and nothing else.

A process that a user starts imports them itself, for seconds; that is left to tests of imports and of commands.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from typing import Any

import pytest  # noqa: F401  (that the server has it, too)
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


def start_apart(work: Callable[..., Any], *arguments: Any) -> ForkServerProcess:
    """A running process, to be killed."""
    process = CONTEXT.Process(target=_alone, args=(work, arguments), daemon=True)
    process.start()
    return process


def _alone(work: Callable[..., Any], arguments: Any) -> Any:
    torch.set_num_threads(1)
    return work(*arguments)


def _send(sender: Any, work: Callable[..., Any], arguments: Any) -> None:
    try:
        sender.send((True, _alone(work, arguments)))
    except BaseException:
        sender.send((False, traceback.format_exc()))
