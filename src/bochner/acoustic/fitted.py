"""What training gives, and how it is kept in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from bochner.storage import load, save, write_atomically

MODULE, HISTORY, CHOICES, SELECTION = "module.safetensors", "history.json", "choices.json", "selection.json"


@dataclass(frozen=True, eq=False)
class Trained:
    """A module from rows [N, d] to logits [N, states], and how it came about.

    `history` has a record an epoch: epoch, rate, ce, ent, erll, err, perplexity on heldout. `choices` says what was
    chosen on heldout: the bandwidth and what else was tried. `selection`, where features were selected, holds their
    survival rates, those of chance, and the relative weight of each input.
    """

    module: nn.Module
    history: list[dict[str, Any]]
    choices: dict[str, Any] = field(default_factory=dict)
    selection: dict[str, list[float]] | None = None

    def save(self, folder: Path) -> None:
        """The module comes last, so that a folder with one is whole."""
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / HISTORY, self.history)
        _write(folder / CHOICES, self.choices)
        if self.selection is not None:
            _write(folder / SELECTION, self.selection)
        save(self.module, folder / MODULE)

    @classmethod
    def load(cls, folder: Path, *, device: str = "cpu") -> Trained:
        selection = json.loads((folder / SELECTION).read_bytes()) if (folder / SELECTION).exists() else None
        history, choices = (json.loads((folder / name).read_bytes()) for name in (HISTORY, CHOICES))
        return cls(load(folder / MODULE, device=device), history, choices, selection)


def _write(path: Path, content: Any) -> None:
    write_atomically(path, json.dumps(content, indent=1).encode())
