"""Anyone's Kaldi features and alignments in, archives of log likelihoods that Kaldi decodes out."""

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

from bochner.acoustic.rows import LabelledRows, Splicer
from bochner.acoustic.settings import ModelSettings
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
ROWS_AT_ONCE = 1024


class KaldiFrames(Mapping[str, Array]):
    """The feats.scp of a Kaldi data directory: utterance id -> frames [T, d], read from its archive when asked for.

    Where there is a cmvn.scp, frames are normalised by mean and variance of their speaker (utt2spk), as `apply-cmvn
    --norm-vars=true` does. Paths begin at `root`. What other transforms a system has (LDA, fMLLR) must be in the
    archives: dump them as Kaldi's `steps/nnet/make_fmllr_feats.sh` does.
    """

    def __init__(self, data: FilePath, *, root: FilePath = ".") -> None:
        folder, self.root = Path(data), Path(root)
        self.places, self.speaker_of = read_table(folder / "feats.scp"), read_table(folder / "utt2spk")
        self.statistics = read_table(folder / "cmvn.scp") if (folder / "cmvn.scp").is_file() else None
        if missing := [name for name in self.places if name not in self.speaker_of]:
            raise ValueError(
                f"{folder / 'utt2spk'} must name the speaker of each utterance, got none for {missing[:10]}."
            )
        self._moments: dict[str, Moments] = {}

    def __getitem__(self, name: str) -> Array:
        frames = self._matrix(self.places[name])
        return frames if self.statistics is None else normalize(frames, self._of_speaker(self.speaker_of[name]))

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def _matrix(self, place: str) -> Array:
        return read_matrix(self.root / place)

    def _of_speaker(self, speaker: str) -> Moments:
        assert self.statistics is not None
        if speaker not in self.statistics:
            raise ValueError(f"cmvn.scp must hold the statistics of each speaker, got none for {speaker!r}.")
        if speaker not in self._moments:
            self._moments[speaker] = _moments(self._matrix(self.statistics[speaker]).astype(np.float64))
        return self._moments[speaker]


class KaldiModel(Storable):
    """log p(x_t | pdf) + constant = log p(pdf | x_t) - log p(pdf): frames [T, d] of one utterance -> [T, num_pdfs].

    `splicer` gives each frame its neighbours, `module` logits of such rows, log_priors [num_pdfs] are counted.
    """

    log_priors: Tensor

    def __init__(self, splicer: Splicer, module: Storable, log_priors: Tensor) -> None:
        super().__init__()
        self.splicer, self.module = splicer, module
        self.register_buffer("log_priors", log_priors)

    def forward(self, frames: Tensor) -> Tensor:
        rows = self.splicer(frames)
        logits = torch.cat([self.module(part) for part in rows.split(ROWS_AT_ONCE)])
        return logits.log_softmax(dim=1) - self.log_priors


def train_on_kaldi(
    settings: ModelSettings,
    *,
    data: FilePath,
    alignments: FilePath,
    folder: FilePath,
    context: int = 5,
    heldout: float = 0.1,
    seed: int = 0,
    root: FilePath = ".",
    device: str = "cpu",
    progress: bool = False,
) -> KaldiModel:
    """A model of the pdfs in a Kaldi experiment, kept in `folder`; the same call again only reads it, or goes on.

    `data` is a data directory (`KaldiFrames`), `alignments` an experiment directory with ali.*.gz, final.mdl, tree and
    phones.txt, such as exp/tri3_ali. A share `heldout` of the speakers is put aside for all choices. Frames are spliced
    with `context` on each side. Utterances without frames or without an alignment are counted and left out. Memory: the
    frames once.
    """
    target = Path(folder)
    if (target / MODEL).exists():
        return read_kaldi_model(target, device=device)
    frames, hmm = KaldiFrames(data, root=root), read_kaldi_hmm(alignments)
    states = {name: hmm.table.pdf[path] for name, path in read_kaldi_alignments(alignments) if name in frames}
    if not states:
        raise ValueError(f"alignments must be of utterances in {data}, but {alignments} holds none of them.")
    logger.info(f"kaldi: {len(states):,} of {len(frames):,} utterances are aligned, with {hmm.num_pdfs:,} pdfs")
    parts = _parts(states, frames.speaker_of, share=heldout, seed=seed)
    train = LabelledRows.learned(frames, states, ids=parts["train"], left=context, right=context)
    judged = LabelledRows(train.splicer, frames, states, parts["heldout"])
    trained = train_model(
        settings, train, judged, num_states=hmm.num_pdfs, seed=seed, folder=target, device=device,
        progress=progress,
    )  # fmt: skip
    assert isinstance(trained.module, Storable)
    priors = torch.from_numpy(log_priors(train.states.numpy(), num_pdfs=hmm.num_pdfs)).float()
    model = KaldiModel(train.splicer, trained.module, priors).to(device)
    save(model, target / MODEL)
    return model


def read_kaldi_model(folder: FilePath, *, device: str = "cpu") -> KaldiModel:
    """What `train_on_kaldi` left in a folder."""
    model = load(Path(folder) / MODEL, device=device)
    if not isinstance(model, KaldiModel):
        raise ValueError(f"{Path(folder) / MODEL} must hold a KaldiModel, got a {type(model).__name__}.")
    return model


def write_likelihoods(model: KaldiModel, frames: Mapping[str, Array], path: FilePath) -> Path:
    """The log likelihoods of every utterance as `path`.ark with `path`.scp beside it; gives the path of the .ark.

    `latgen-faster-mapped final.mdl HCLG.fst ark:PATH.ark ark:lattices` decodes it: rows are frames, columns pdfs.
    All of it or, after an error, nothing. Memory: one utterance.
    """
    like = model.log_priors

    def scored() -> Iterator[tuple[str, Array]]:
        with torch.no_grad():
            for name, one in frames.items():
                yield name, model(torch.from_numpy(np.array(one, dtype=np.float32)).to(like)).float().cpu().numpy()

    return write_archive(path, scored())


def write_archive(path: FilePath, matrices: Iterable[tuple[str, Array]]) -> Path:
    """Matrices (utterance id, float32 [T, d]) as Kaldi's binary `path`.ark, and their places as `path`.scp.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ark = write_archive(folder + "/likes", [("ann-1", np.eye(2, dtype=np.float32))])
    ...     place = ark.with_suffix(".scp").read_text().split()[1]
    ...     read_matrix(place).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    ark, scp = Path(f"{os.fspath(path)}.ark"), Path(f"{os.fspath(path)}.scp")
    ark.parent.mkdir(parents=True, exist_ok=True)
    partial = ark.with_name(f"{ark.name}.part")
    try:
        with partial.open("wb") as file:
            places = [f"{name} {ark.resolve()}:{_appended(file, name, matrix)}\n" for name, matrix in matrices]
        partial.replace(ark)
    finally:
        partial.unlink(missing_ok=True)
    write_atomically(scp, "".join(places).encode())
    return ark


def _appended(file: BinaryIO, name: str, matrix: Array) -> int:
    """Where the matrix begins, after its name."""
    from kaldiio import matio  # in the extra

    file.write(f"{name} ".encode())
    place = file.tell()
    matio.write_array(file, np.ascontiguousarray(matrix, dtype=np.float32))
    return place


def _moments(statistics: Array) -> Moments:
    """Of Kaldi's [2, d + 1]: sums of x with their count at the end, and sums of x^2."""
    count = statistics[0, -1]
    mean = statistics[0, :-1] / count
    return Moments(int(count), mean, np.sqrt(np.maximum(statistics[1, :-1] / count - mean**2, 0.0)))


def _parts(states: Iterable[str], speaker_of: Mapping[str, str], *, share: float, seed: int) -> dict[str, list[str]]:
    """The utterances of train and heldout, which share no speaker."""
    names = list(states)
    speakers = {speaker_of[name] for name in names}
    part_of = split_speakers(speakers, seed=seed, sizes={"train": 1.0 - share, "heldout": share})
    return {part: [name for name in names if part_of[speaker_of[name]] == part] for part in ("train", "heldout")}
