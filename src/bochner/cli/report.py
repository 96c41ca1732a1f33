"""Transitional: `say` for the commands that do not log yet."""

from bochner.cli.logs import labelled


def say(name: str, text: str) -> None:
    print(labelled(name, text), flush=True)
