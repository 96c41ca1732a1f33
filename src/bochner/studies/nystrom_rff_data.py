"""The data sets of the Nystrom and Fourier studies: inputs of unit variance, a heldout part, a bandwidth."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Generator, Tensor

from bochner import checks
from bochner.data.blocks import Block
from bochner.studies.workers import Context

if TYPE_CHECKING:
    from bochner.speech.manifest import Utterance

HELDOUT_SHARE = 0.1
SPLIT_SEED = 0  # all seeds of a map use the same parts


@dataclass(frozen=True)
class Task:
    """The file of a data set; `gamma` is 1 / (2 sigma^2), from May's Table D.1 for the sets that are in it.

    Those of house and mnist are the best of four and of three values on heldout rows (3,000 training rows, 1,000
    Fourier features, one seed); digits hardly depends on it. `paper` is the papers' data set that it is or replaces.
    """

    name: str
    file: str | None
    gamma: float
    paper: str
    inputs: str = "X_train"
    targets: str = "y_train"
    classes: bool = True


_ALL = (
    Task("digits", None, 0.005, "none: scikit-learn's digits, for a quick check"),
    Task("a9a", "a9a.npz", 0.1, "ADULT"),
    Task("covtype", "covtype_sample.npz", 0.6, "COVTYPE, of which it is a sixth", "X_raw", "y_binary"),
    Task("covtype, all rows", "covtype.npz", 0.6, "COVTYPE", "X_raw", "y_binary"),
    Task("cpu", "cpu_rahimi.npz", 0.03, "CPU", classes=False),
    Task("house", "house_16h.npz", 0.1, "a stand-in for CENSUS: 16 of its inputs", "X", "y", classes=False),
    Task("mnist", "mnist.npz", 0.0005, "not in May's chapter"),
    Task("timit", "timit_nltk_sample.zip", 0.0015, "a stand-in for TIMIT: 16 of its 630 speakers, 48 phones"),
)
TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _ALL})
FILES: Mapping[str, str] = MappingProxyType({task.name: task.file for task in _ALL if task.file is not None})


class Parts(NamedTuple):
    """Training and heldout rows; float32 inputs of unit variance, classes 0 .. C - 1 or centred numbers."""

    train: Block
    heldout: Block
    num_classes: int | None

    def to(self, device: str) -> Parts:
        train, heldout = (Block(X.to(device), y.to(device)) for X, y, _ in (self.train, self.heldout))
        return Parts(train, heldout, self.num_classes)


def loader(context: Context) -> Callable[[str, int | None], Parts]:
    """`load` onto the device, with the last set kept in memory."""

    @lru_cache(maxsize=1)
    def load_once(name: str, num_rows: int | None) -> Parts:
        return load(name, context.data_dir, num_rows=num_rows).to(context.device)

    return load_once


def load(name: str, data_dir: Path, *, num_rows: int | None) -> Parts:
    """A task by name, with at most `num_rows` training rows. The test parts of the files are not read."""
    checks.one_of("data", name, TASKS)
    task = TASKS[name]
    train, heldout = _timit(data_dir / str(task.file)) if name == "timit" else _split(*_arrays(task, data_dir))
    if name != "timit":
        train, heldout = _standardized(train, heldout)
    if num_rows is not None:
        train = _some(train, num_rows)
        heldout = _some(heldout, num_rows)
    if not task.classes:
        mean = train.y.mean()
        return Parts(Block(train.X, train.y - mean), Block(heldout.X, heldout.y - mean), None)
    return Parts(train, heldout, int(torch.cat([train.y, heldout.y]).max()) + 1)


def _arrays(task: Task, data_dir: Path) -> tuple[Tensor, Tensor]:
    if task.file is None:
        X, y = load_digits(return_X_y=True)
    else:
        with np.load(data_dir / task.file) as file:
            X, y = file[task.inputs], file[task.targets]
    targets = torch.as_tensor(y)
    return torch.as_tensor(X, dtype=torch.float32), (
        targets.unique(return_inverse=True)[1] if task.classes else targets.float()
    )


def _split(X: Tensor, y: Tensor) -> tuple[Block, Block]:
    order = torch.randperm(len(X), generator=Generator().manual_seed(SPLIT_SEED))
    heldout, train = order.split([count := round(HELDOUT_SHARE * len(X)), len(X) - count])
    return Block(X[train], y[train]), Block(X[heldout], y[heldout])


def _standardized(train: Block, heldout: Block) -> tuple[Block, Block]:
    """Mean 0 and variance 1 by the training rows; inputs with only two values are unchanged."""
    low, high = train.X.min(dim=0).values, train.X.max(dim=0).values
    binary = torch.isclose(torch.maximum(train.X - low, high - train.X), high - low).all(dim=0)
    mean, std = train.X.mean(dim=0), train.X.std(dim=0)
    mean, std = torch.where(binary, 0.0, mean), torch.where(binary | (std == 0), 1.0, std)
    return Block((train.X - mean) / std, train.y), Block((heldout.X - mean) / std, heldout.y)


def _some(block: Block, num_rows: int) -> Block:
    chosen = torch.randperm(len(block.X), generator=Generator().manual_seed(SPLIT_SEED))[:num_rows]
    return Block(block.X[chosen], block.y[chosen])


def _timit(archive: Path) -> tuple[Block, Block]:
    parts = timit_frames(archive)
    train, heldout = (Block(*map(torch.as_tensor, parts[part])) for part in ("train", "heldout"))
    return train, heldout


# -- TIMIT: frames with hand-labelled phones --------------------------------------------------------------------

Array = NDArray[Any]
RATE, SHIFT, MIDDLE = 16000, 0.01, 0.0125  # windows of 25 ms every 10 ms
CONTEXT = 5
SPEAKERS = {"train": 10, "heldout": 2, "test": 4}


def timit_frames(archive: Path) -> Mapping[str, tuple[Array, Array]]:
    """(X [N, 429], y [N]) for train, heldout and test, which share no speaker.

    X is 39 cepstra (13 with two orders of deltas, normalised by speaker) of 11 frames, y one of 48 phones.
    """
    from bochner.speech.audio import read_audio  # the speech extra
    from bochner.speech.corpora.timit import fold_utterance, prepare_timit
    from bochner.speech.frontend import Mfcc
    from bochner.speech.frontend.postprocess import add_deltas, group_moments, normalize, splice
    from bochner.speech.score.protocol import FOLDINGS

    with tempfile.TemporaryDirectory() as directory:
        corpus = prepare_timit(archive, directory, sizes=SPEAKERS)
        utterances = [fold_utterance(utterance, FOLDINGS["61-48"]) for utterance in corpus.utterances]
        cepstra = {u.id: add_deltas(Mfcc(rate=RATE)(read_audio(u, corpus_dir=directory))) for u in utterances}
    moments = group_moments((u.speaker, cepstra[u.id]) for u in utterances)
    parts = {}
    for part in SPEAKERS:
        members = [u for u in utterances if u.part == part]
        frames = [splice(normalize(cepstra[u.id], moments[u.speaker]), left=CONTEXT, right=CONTEXT) for u in members]
        labels = [frame_labels(u, len(rows)) for u, rows in zip(members, frames, strict=True)]
        parts[part] = np.concatenate(frames), np.concatenate(labels)
    return parts


def frame_labels(utterance: Utterance, num_frames: int) -> Array:
    """The phone at the centre of each frame's window, by its index among the 48: int [T]."""
    from bochner.speech.score.protocol import PHONES_48  # the speech extra

    ends = [segment.end for segment in utterance.phones]
    places = np.searchsorted(ends[:-1], MIDDLE + SHIFT * np.arange(num_frames), side="right")
    phones = np.array([PHONES_48.index(segment.label) for segment in utterance.phones])
    return phones[places]
