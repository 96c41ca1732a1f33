"""What a model is to learn, and with what means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Generator, Tensor

from bochner.data.batches import in_order
from bochner.data.blocks import Source, seeded
from bochner.speech.pipeline.steps import Say, silent

ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Task:
    """Rows with their states, heldout rows to choose by, and where to compute and keep what is unfinished."""

    train: Source
    heldout: Source
    num_states: int
    seed: int
    checkpoint: Path | None = None
    device: str = "cpu"
    progress: bool = False
    say: Say = silent

    def generator(self, purpose: str) -> Generator:
        """One for each purpose, so that no draw depends on those before it."""
        return seeded(self.seed, purpose)

    def folder(self, name: str) -> Path | None:
        """A folder for checkpoints of that name."""
        return None if self.checkpoint is None else self.checkpoint / name

    @cached_property
    def log_shares(self) -> Tensor:
        """log p(state) [S] over the rows of train, each state counted once more: the best constant logits."""
        counts = torch.ones(self.num_states, dtype=torch.float64)
        for block in in_order(self.train, batch_rows=ROWS_AT_ONCE):
            counts += torch.bincount(block.y.cpu(), minlength=self.num_states)
        return (counts / counts.sum()).log().float()
