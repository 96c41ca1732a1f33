"""Suggestions for misspelt commands, options, values and columns in error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

# Options of release 0.1 and their names since.
RENAMED = {
    "num_features": "n_components",
    "ridge": "alpha",
    "heldout": "validation_data",
    "heldout_fraction": "validation_fraction",
    "progress": "verbose",
    "directions": "preconditioner_rank",
    "seed": "random_state",
    "out": "output_dir",
    "folder": "output_dir",
}
# How the messages of argparse, jsonargparse, scikit-learn and this package name the value that was not accepted.
_REJECTED = re.compile(r"(?:invalid choice: |Got value: |Got |got |has no column )'?([\w.+-]+)'?")
_QUOTED = re.compile(r"'([^']+)'")


def with_suggestion(message: str) -> str:
    """The message, and the name in it that the value which was not accepted resembles most, if there is one.

    >>> with_suggestion("solver must be one of ['sgd', 'saga'], got 'sdg'.")
    "solver must be one of ['sgd', 'saga'], got 'sdg'; did you mean 'sgd'?"
    """
    rejected = _REJECTED.search(message)
    if rejected is None or "did you mean" in message:
        return message
    names = [name for name in _QUOTED.findall(message) if name != rejected[1]]
    return f"{message.rstrip('.')}{hint(rejected[1], names)}"


def option_hint(option: str, options: Iterable[str]) -> str:
    """The hint for an option that a command does not have; options of release 0.1 are known by their old names.

    >>> option_hint("--num_featurs", ["--n_components", "--num_blocks"])
    "; did you mean '--n_components'?"
    """
    known = {name.lstrip("-"): name for name in options}
    old = {name: f"--{new}" for name, new in RENAMED.items() if new in known}
    word = option.partition("=")[0].lstrip("-").replace("-", "_")
    close = get_close_matches(word, [*known, *old], n=1, cutoff=0.6)
    return f"; did you mean {(known | old)[close[0]]!r}?" if close else "."


def hint(word: str, names: Iterable[str]) -> str:
    close = get_close_matches(word, list(names), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else "."
