"""Acoustic models for Kaldi systems: trained on their features and alignments, with archives of log likelihoods."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bochner.acoustic.model import TILE_ROWS
from bochner.acoustic.settings import ModelSettings
from bochner.acoustic.spliced_frames import SplicedFrames, Splicer
from bochner.acoustic.training import train_model
from bochner.speech.corpora.kaldi_directory import read_table
from bochner.speech.decode import log_priors
from bochner.speech.frontend.postprocess import Moments, normalize
from bochner.speech.hmm.model import read_kaldi_hmm
from bochner.speech.kaldi_formats import read_kaldi_alignments, read_matrix
from bochner.speech.manifest import split_speakers
from bochner.storage import Storable, load, save, write_atomically

logger = logging.getLogger(__name__)
Array = NDArray[Any]
FilePath = str | os.PathLike[str]
MODEL = "kaldi.safetensors"


class KaldiFrames(Mapping[str, Array]):
    """The feats.scp of a Kaldi data directory: utterance id -> frames [T, d], read from the archive on access.

    If there is a cmvn.scp, frames are normalised by the mean and variance of their speaker (utt2spk), as by `apply-cmvn
    --norm-vars=true`. Paths are relative to `root`. Other transforms of a system (LDA, fMLLR) must be applied in the
    archives, as by Kaldi's `steps/nnet/make_fmllr_feats.sh`.
    """

    def __init__(self, data: FilePath, *, root: FilePath = ".") -> None:
        directory, self.root = Path(data), Path(root)
        self.paths, self.speaker_of = read_table(directory / "feats.scp"), read_table(directory / "utt2spk")
        self.statistics = read_table(directory / "cmvn.scp") if (directory / "cmvn.scp").is_file() else None
        if missing := [name for name in self.paths if name not in self.speaker_of]:
            raise ValueError(
                f"{directory / 'utt2spk'} must name the speaker of each utterance, got none for {missing[:10]}."
            )
        self._moments: dict[str, Moments] = {}

    def __getitem__(self, name: str) -> Array:
        frames = self._matrix(self.paths[name])
        return frames if self.statistics is None else normalize(frames, self._speaker_moments(self.speaker_of[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def _matrix(self, path: str) -> Array:
        return read_matrix(self.root / path)

    def _speaker_moments(self, speaker: str) -> Moments:
        assert self.statistics is not None
        if speaker not in self.statistics:
            raise ValueError(f"cmvn.scp must contain the statistics of each speaker, got none for {speaker!r}.")
        if speaker not in self._moments:
            self._moments[speaker] = _moments(self._matrix(self.statistics[speaker]).astype(np.float64))
        return self._moments[speaker]


class KaldiModel(Storable):
    """log p(x_t | pdf) + constant = log p(pdf | x_t) - log p(pdf): frames [T, d] of one utterance -> [T, num_pdfs].

    `splicer` turns frames into rows, `module` rows into logits; log_priors [num_pdfs] are relative frequencies.
    """

    log_priors: Tensor

    def __init__(self, splicer: Splicer, module: Storable, log_priors: Tensor) -> None:
        super().__init__()
        self.splicer, self.module = splicer, module
        self.register_buffer("log_priors", log_priors)

    def forward(self, frames: Tensor) -> Tensor:
        rows = self.splicer(frames)
        logits = torch.cat([self.module(part) for part in rows.split(TILE_ROWS)])
        return logits.log_softmax(dim=1) - self.log_priors


def train_on_kaldi(
    settings: ModelSettings,
    *,
    data: FilePath,
    alignments: FilePath,
    output_dir: FilePath,
    context: int = 5,
    heldout: float = 0.1,
    seed: int = 0,
    root: FilePath = ".",
    device: str = "cpu",
    verbose: bool = False,
) -> KaldiModel:
    """Train a model of the pdfs of a Kaldi experiment, or continue in `output_dir`; a finished model is only read.

    `data` is a data directory (`KaldiFrames`), `alignments` an experiment directory with ali.*.gz, final.mdl, tree and
    phones.txt, such as exp/tri3_ali. A share `heldout` of the speakers is held out for tuning and early stopping.
    Frames are spliced with `context` on each side. Utterances without frames or without an alignment are left out.
    Memory: one copy of the frames.
    """
    target = Path(output_dir)
    if (target / MODEL).exists():
        return read_kaldi_model(target, device=device)
    frames, hmm = KaldiFrames(data, root=root), read_kaldi_hmm(alignments)
    states = {name: hmm.table.pdf[path] for name, path in read_kaldi_alignments(alignments) if name in frames}
    if not states:
        raise ValueError(f"alignments must be those of utterances in {data}, but {alignments} has none of them.")
    logger.info("kaldi: %d of %d utterances are aligned, with %d pdfs", len(states), len(frames), hmm.num_pdfs)
    parts = _split(states, frames.speaker_of, share=heldout, seed=seed)
    train = SplicedFrames.fit(frames, states, ids=parts["train"], left=context, right=context)
    heldout_rows = SplicedFrames(train.splicer, frames, states, parts["heldout"])
    trained = train_model(
        settings, train, heldout_rows, num_states=hmm.num_pdfs, seed=seed, output_dir=target, device=device,
        verbose=verbose,
    )  # fmt: skip
    assert isinstance(trained.module, Storable)
    priors = torch.from_numpy(log_priors(train.states.numpy(), num_pdfs=hmm.num_pdfs)).float()
    model = KaldiModel(train.splicer, trained.module, priors).to(device)
    save(model, target / MODEL)
    return model


def read_kaldi_model(directory: FilePath, *, device: str = "cpu") -> KaldiModel:
    """The model that `train_on_kaldi` wrote."""
    path = Path(directory) / MODEL
    model = load(path, device=device)
    if not isinstance(model, KaldiModel):
        raise ValueError(f"{path} must hold a KaldiModel, got a {type(model).__name__}.")
    return model


def write_likelihoods(model: KaldiModel, frames: Mapping[str, Array], path: FilePath) -> Path:
    """Write the log likelihoods of every utterance as `path`.ark and `path`.scp; returns the path of the .ark.

    `latgen-faster-mapped final.mdl HCLG.fst ark:PATH.ark ark:lattices` decodes it: rows are frames, columns pdfs. No
    file is left after an error. Memory: one utterance.
    """
    like = model.log_priors

    def likelihoods() -> Iterator[tuple[str, Array]]:
        with torch.no_grad():
            for name, x in frames.items():
                yield name, model(torch.from_numpy(np.array(x, dtype=np.float32)).to(like)).float().cpu().numpy()

    return write_archive(path, likelihoods())


def write_archive(path: FilePath, matrices: Iterable[tuple[str, Array]]) -> Path:
    """Write matrices (utterance id, float32 [T, d]) as Kaldi's binary `path`.ark, and their positions as `path`.scp.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     ark = write_archive(directory + "/likes", [("ann-1", np.eye(2, dtype=np.float32))])
    ...     position = ark.with_suffix(".scp").read_text().split()[1]
    ...     read_matrix(position).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    ark, scp = Path(f"{os.fspath(path)}.ark"), Path(f"{os.fspath(path)}.scp")
    ark.parent.mkdir(parents=True, exist_ok=True)
    partial = ark.with_name(f"{ark.name}.part")
    try:
        with partial.open("wb") as file:
            lines = [f"{name} {ark.resolve()}:{_append(file, name, matrix)}\n" for name, matrix in matrices]
        partial.replace(ark)
    finally:
        partial.unlink(missing_ok=True)
    write_atomically(scp, "".join(lines).encode())
    return ark


def _append(file: BinaryIO, name: str, matrix: Array) -> int:
    """Append a matrix; returns its position, which is after its name."""
    from kaldiio import matio  # in the extra

    file.write(f"{name} ".encode())
    position = file.tell()
    matio.write_array(file, np.ascontiguousarray(matrix, dtype=np.float32))
    return position


def _moments(statistics: Array) -> Moments:
    """From Kaldi's statistics [2, d + 1]: the sums of x, followed by their count, and the sums of x^2."""
    count = statistics[0, -1]
    mean = statistics[0, :-1] / count
    return Moments(int(count), mean, np.sqrt(np.maximum(statistics[1, :-1] / count - mean**2, 0.0)))


def _split(states: Iterable[str], speaker_of: Mapping[str, str], *, share: float, seed: int) -> dict[str, list[str]]:
    """The utterances of train and heldout, which have no speaker in common."""
    names = list(states)
    speakers = {speaker_of[name] for name in names}
    part_of = split_speakers(speakers, seed=seed, sizes={"train": 1.0 - share, "heldout": share})
    return {part: [name for name in names if part_of[speaker_of[name]] == part] for part in ("train", "heldout")}
