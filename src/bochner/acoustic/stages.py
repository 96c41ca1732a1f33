"""Stages of a run: each in a folder named by what it was made from, done once, resumed where it was stopped."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.stages import Stage

RECORD = "stage.json"
HASH_DIGITS = 10
Found = Mapping[str, Any]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """A finished stage: where it lies, the hash of all it was made from, and what it found."""

    folder: Path
    key: str
    found: dict[str, Any]


@dataclass(frozen=True)
class Stages:
    """The stages below `root`. A changed setting is another folder; what does not depend on it stays.

    >>> import tempfile
    >>> temporary = tempfile.TemporaryDirectory()
    >>> stages = Stages(Path(temporary.name))
    >>> first = stages.run("corpus", "digits", {"hours": 1}, make=lambda folder: {"utterances": 3})
    >>> stages.run("corpus", "digits", {"hours": 1}, make=None).found["utterances"]  # not made again
    3
    >>> later = stages.run("models", "kernel", {"rank": 5}, after=[first], make=lambda folder: {})
    >>> later.folder.parent.name
    'models'
    """

    root: Path

    def run(
        self,
        kind: str,
        name: str,
        settings: Found,
        *,
        after: Sequence[Done] = (),
        make: Callable[[Path], Found],
    ) -> Done:
        """What the stage found when it was made, or `make(folder)`, now.

        `make` gets the same folder again after it was stopped, and goes on with what it left there. Its inputs are
        `settings` and the stages `after` which it comes; the folder's name has their hash.
        """
        inputs = {"settings": settings, "after": [one.key for one in after]}
        key = hash_of({"kind": kind, **inputs})
        folder = self.root / kind / f"{_plain(name)}-{key}"
        folder.mkdir(parents=True, exist_ok=True)
        stage = Stage(folder / RECORD, inputs)
        finished = " (finished already)" if stage.result() is not None else ""
        logger.info("%s: %s%s", kind, name, finished)
        return Done(folder, key, stage.run(lambda: make(folder)))


def hash_of(inputs: Found) -> str:
    """Of plain values, whatever the order of their names.

    >>> hash_of({"a": 1, "b": 2}) == hash_of({"b": 2, "a": 1}) != hash_of({"a": 1, "b": 3})
    True
    """
    text = json.dumps(inputs, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def _plain(name: str) -> str:
    """
    >>> _plain("laplacian 4096 erll:1")
    'laplacian-4096-erll-1'
    """
    return re.sub(r"[^\w.]+", "-", name).strip("-")
