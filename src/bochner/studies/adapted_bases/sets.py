"""The data sets, centred and scaled to [-1, 1] per input, in three parts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from bochner import checks
from bochner.data.blocks import Block

HELDOUT = {"mnist": 10_000, "covtype": 8_000, "ijcnn1": 5_000, "a9a": 3_560, "satimage": 500}
FILES = {
    "mnist": "mnist.npz",
    "covtype": "covtype_sample.npz",
    "ijcnn1": "ijcnn1.npz",
    "a9a": "a9a.npz",
    "satimage": "satimage_scale.npz",
}
TEST_SHARE = 0.2  # where the file has no test part
SPLIT_SEED = 0  # parts are the same for every trial
NUM_HALF = 5  # classes of a transfer task


class Parts(NamedTuple):
    """Rows of a set, classes 0 .. C - 1."""

    train: Block
    heldout: Block
    test: Block

    @property
    def num_classes(self) -> int:
        return int(self.train.y.max()) + 1


def load(name: str, data_dir: Path, *, device: str = "cpu") -> Parts:
    """A set by its name in `FILES`; without a test part in the file, a fifth of the rows is it."""
    checks.one_of("sets", name, FILES)
    with np.load(data_dir / FILES[name]) as file:
        arrays = {key: torch.as_tensor(file[key]) for key in file.files if key in _ARRAYS}
    if "X_test" not in arrays:
        arrays = _with_test(arrays["X"], arrays["y"])
    _, y = torch.cat([arrays["y_train"], arrays["y_test"]]).unique(return_inverse=True)
    num_train = len(arrays["y_train"])
    X_train, X_test = _scaled(arrays["X_train"].float(), arrays["X_test"].float())
    order = torch.randperm(num_train, generator=Generator().manual_seed(SPLIT_SEED))
    heldout, train = order.split([HELDOUT[name], num_train - HELDOUT[name]])
    blocks = (Block(X_train[train], y[train]), Block(X_train[heldout], y[heldout]), Block(X_test, y[num_train:]))
    return Parts(*(Block(X.to(device), y.to(device)) for X, y, _ in blocks))


def halves(parts: Parts, *, seed: int) -> tuple[Parts, Parts]:
    """Two tasks: five classes drawn at random, and the others, each numbered anew from 0."""
    order = torch.randperm(parts.num_classes, generator=Generator().manual_seed(seed))
    return tuple(_only(parts, classes) for classes in (order[:NUM_HALF], order[NUM_HALF:]))  # type: ignore[return-value]


_ARRAYS = ("X", "y", "X_train", "y_train", "X_test", "y_test")


def _with_test(X: Tensor, y: Tensor) -> dict[str, Tensor]:
    order = torch.randperm(len(X), generator=Generator().manual_seed(SPLIT_SEED + 1))
    test, train = order.split([num_test := round(TEST_SHARE * len(X)), len(X) - num_test])
    return {"X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test]}


def _scaled(train: Tensor, test: Tensor) -> tuple[Tensor, Tensor]:
    mean = train.mean(dim=0)
    reach = (train - mean).abs().max(dim=0).values
    reach = torch.where(reach > 0, reach, 1.0)
    return (train - mean) / reach, (test - mean) / reach


def _only(parts: Parts, classes: Tensor) -> Parts:
    kept = classes.sort().values.to(parts.train.y.device)

    def take(block: Block) -> Block:
        rows = torch.isin(block.y, kept)
        return Block(block.X[rows], torch.searchsorted(kept, block.y[rows]))

    return Parts(*map(take, parts))
