"""A step of the chain: what it was asked for stands beside what it made, and so does that it is finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bochner.speech.text_files import parse_json
from bochner.storage import write_atomically

Say = Callable[[str, str], None]
"""Takes a short name and what is to be said under it."""


def silent(name: str, text: str) -> None:
    """Nobody."""


class Step:
    """`file` holds the settings of a step from its beginning, and what it found once it is finished.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> step = Step(Path(folder.name, "step.json"), {"seed": 0})
    >>> step.begin()
    >>> step.finish({"utterances": 3})
    >>> Step(step.file, {"seed": 0}).begin()
    {'utterances': 3}
    >>> Step(step.file, {"seed": 1}).begin()
    Traceback (most recent call last):
    ...
    ValueError: /.../step.json belongs to other settings (seed: 0 there, 1 here); ask for the same, or another folder.
    """

    def __init__(self, file: Path, settings: Mapping[str, Any]) -> None:
        self.file, self.settings = file, json.loads(json.dumps(dict(settings), default=str))

    def begin(self) -> dict[str, Any] | None:
        """What the finished step found, or None where there is something to do; other settings are an error."""
        if not self.file.exists():
            self._write(None)
        stored = read_step(self.file)
        self._check(stored["settings"])
        return stored["found"]

    def found(self) -> dict[str, Any] | None:
        """The same for a step that begins anew unless it is finished: of one that failed nothing is kept."""
        return self.begin() if self.file.exists() and read_step(self.file)["found"] is not None else None

    def finish(self, found: Mapping[str, Any]) -> None:
        self._write(found)

    def _write(self, found: Mapping[str, Any] | None) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps({"settings": self.settings, "found": found}, indent=1).encode())

    def _check(self, there: Mapping[str, Any]) -> None:
        changed = [
            f"{name}: {there.get(name)!r} there, {self.settings.get(name)!r} here"
            for name in sorted({*there, *self.settings})
            if there.get(name) != self.settings.get(name)
        ]
        if changed:
            raise ValueError(
                f"{self.file} belongs to other settings ({', '.join(changed)}); ask for the same, or another folder."
            )


def read_step(file: Path) -> dict[str, Any]:
    """`settings` and `found` of a step."""
    try:
        stored = parse_json(file.read_bytes())
        return {"settings": dict(stored["settings"]), "found": stored["found"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{file} is not the record of a step: {error!r}; remove it to begin anew.") from error
