"""Adaptation of a saved acoustic model to a speaker or a domain, from recordings with transcripts."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bochner import checks
from bochner.acoustic.model import AcousticModel
from bochner.acoustic.sequence import last_layer, with_last_layer
from bochner.speech.align import FunctionScores, align_utterances, tied_states
from bochner.speech.align.em import ADAPTATION_ROUNDS, estimate_fmllr
from bochner.speech.align.gmm_hmm import View, ViewedFrames
from bochner.speech.audio import AudioError, read_audio
from bochner.speech.corpora.directory import prepare_directory
from bochner.speech.corpora.pronunciations import normalized
from bochner.speech.frontend.postprocess import Moments, group_moments, normalize
from bochner.speech.hmm.mixtures import Mixtures, MixtureStatistics, accumulate
from bochner.speech.levels import may_be_speech
from bochner.speech.manifest import Utterance, manifest_path, read_manifest
from bochner.speech.text_files import Skipped, summarize
from bochner.speech.truncation import truncation

Array = NDArray[Any]
METHODS = ("fmllr", "map", "head")
HELDOUT_STEP = 10  # every tenth utterance is held out to stop the retraining of a head
BATCH_ROWS, MAX_EPOCHS, LEARNING_RATE = 256, 20, 1e-3
NORMALIZE = ("lower", "no_punctuation")


@dataclass(frozen=True, eq=False)
class RecordedData:
    """Utterances with their cepstra, normalised by speaker, and the moments of the speakers.

    `truncated` lists utterances whose audio is shorter than its header states; they are among `utterances`, too.
    """

    utterances: list[Utterance]
    cepstra: dict[str, Array]
    moments: dict[str, Moments]
    skipped: list[Skipped]
    truncated: list[Skipped] = field(default_factory=list)

    @property
    def speaker_of(self) -> dict[str, str]:
        return {utterance.id: utterance.speaker for utterance in self.utterances}


def read_data(model: AcousticModel, data: Path, *, speakers: str | None = None) -> RecordedData:
    """The utterances of a corpus directory, or of a directory of recordings with transcripts, as inputs of `model`.

    Transcripts of a directory of recordings are normalised to lower case without punctuation, unless the model's
    lexicon has the words as written. `speakers` is "folder" (default), "prefix" or "file", see `prepare_directory`, or
    "same" for one speaker.
    """
    if model.front_end is None:
        raise ValueError("the model was trained on frames provided by a corpus; it cannot read recordings.")
    with tempfile.TemporaryDirectory() as temporary:
        utterances, directory, skipped = read_utterances(
            data, Path(temporary), lexicon=model.lexicon, speakers=speakers
        )
        raw: dict[str, Array] = {}
        truncated: list[Skipped] = []
        for utterance in utterances:
            try:
                samples = read_audio(utterance.replace(rate=model.front_end.rate), corpus_dir=directory)
                if (reason := truncation(directory / str(utterance.audio))) is not None:
                    truncated.append(Skipped(utterance.id, reason))
                if may_be_speech(samples, rate=model.front_end.rate):
                    raw[utterance.id] = model.front_end(samples)
                else:
                    skipped.append(Skipped(utterance.id, "no speech (silence or stationary noise)"))
            except AudioError as error:
                skipped.append(Skipped(utterance.id, error.reason))
            except ValueError as error:  # shorter than one frame
                skipped.append(Skipped(utterance.id, str(error)))
    utterances = [utterance for utterance in utterances if utterance.id in raw]
    if not utterances:
        raise ValueError(f"data must contain usable recordings, got none in {data}: {summarize(skipped)}.")
    if model.prior is None:
        moments = group_moments((utterance.speaker, raw[utterance.id]) for utterance in utterances)
    else:
        frames_of: dict[str, list[Array]] = {}
        for utterance in utterances:
            frames_of.setdefault(utterance.speaker, []).append(raw[utterance.id])
        moments = {speaker: model.prior.moments(frames) for speaker, frames in frames_of.items()}
    cepstra = {u.id: normalize(raw[u.id], moments[u.speaker]) for u in utterances}
    return RecordedData(utterances, cepstra, moments, skipped, truncated)


def read_utterances(
    data: Path, temporary: Path, *, lexicon: Any, speakers: str | None
) -> tuple[list[Utterance], Path, list[Skipped]]:
    """The utterances, the directory that their paths are relative to, and the skipped files."""
    if manifest_path(data).is_file():
        utterances, directory, skipped = read_manifest(data), data, []
    else:
        chosen = "folder" if speakers in (None, "same") else speakers
        prepared = prepare_directory(data, temporary, speakers=chosen, sizes={"train": 1.0})
        utterances, directory, skipped = prepared.utterances, temporary, prepared.skipped
        words = {token for utterance in utterances for token in utterance.tokens}
        if not words <= set(lexicon):
            utterances = normalized(utterances, NORMALIZE)
    if speakers == "same":
        utterances = [utterance.replace(speaker="speaker", part="train") for utterance in utterances]
    return utterances, directory, skipped


@dataclass(frozen=True, eq=False)
class AlignedData:
    """Inputs of the model [T, d] and states [T] by utterance, and the transforms of speakers."""

    frames: Mapping[str, Array]
    states: dict[str, Array]
    transforms: Mapping[str, Array]
    skipped: list[Skipped]


def align_data(model: AcousticModel, data: RecordedData) -> AlignedData:
    """Forced alignment by the model; a speaker-adapted model aligns twice, the second time with transforms."""
    frames = model.stage.viewed(data.cepstra, data.speaker_of)
    alignments = _align(model, data, frames)
    if model.adapted and alignments.paths:
        states = {name: tied_states(model.hmm, path) for name, path in alignments.paths.items()}
        for _ in range(ADAPTATION_ROUNDS):
            transforms = estimate_fmllr(model.stage.mixtures, frames, states, ignored=model.stage.silence_pdfs)
            frames = replace(frames, transforms=transforms)
        alignments = _align(model, data, frames)
    states = {name: tied_states(model.hmm, path) for name, path in alignments.paths.items()}
    return AlignedData({name: frames[name] for name in data.cepstra}, states, frames.transforms, alignments.skipped)


def _align(model: AcousticModel, data: RecordedData, frames: ViewedFrames) -> Any:
    scores = FunctionScores(lambda name: model.log_likelihoods(frames[name]))
    return align_utterances(model.hmm, model.lexicon, data.utterances, scores)


def adapt(
    model: AcousticModel,
    data: RecordedData,
    *,
    methods: Sequence[str] | None = None,
    tau: float = 10.0,
    seed: int = 0,
) -> tuple[AcousticModel, dict[str, Any]]:
    """The adapted model, and a record of what changed.

    "fmllr" makes the transform and the moments of a single speaker part of the model, which then recognises short
    recordings of this speaker as it would long ones. "map" adapts the means of the mixtures of a GMM (see `map_means`).
    "head" trains the last layer of a kernel model or a network on the data, as long as the loss of every tenth
    utterance, which is held out, decreases. By default: "fmllr" if there is one speaker and the model is
    speaker-adapted, then "map" for a GMM, "head" for other models, and both for a combination with a GMM. O(T) in time,
    and O(epochs T) for a head.
    """
    one_speaker = len(data.moments) == 1
    for method in methods or ():
        checks.one_of("methods", method, METHODS)
    if methods is None:
        methods = ["fmllr"] if one_speaker and model.adapted else []
        methods += ["map"] if model.uses_mixtures else []
        methods += [] if model.module is None else ["head"]
    aligned = align_data(model, data)
    if not aligned.states:
        raise ValueError(
            f"data must have matching transcripts, but no utterance could be aligned: {summarize(aligned.skipped)}."
        )
    record: dict[str, Any] = {
        "methods": list(methods), "utterances": len(aligned.states), "speakers": len(data.moments),
        "skipped": len(data.skipped) + len(aligned.skipped),
    }  # fmt: skip
    for method in methods:
        if method == "fmllr":
            if not one_speaker:
                raise ValueError(
                    f"fmllr adapts to one speaker, got {len(data.moments)}; set speakers to same, or leave out fmllr."
                )
            (speaker,) = data.moments
            model = with_speaker(model, data.moments[speaker], aligned.transforms.get(speaker))
        elif method == "map":
            if not model.uses_mixtures:
                raise ValueError("map adapts a GMM, but the model is a classifier; use head.")
            model, record["map"] = _with_map(model, aligned, data, tau)
        else:
            model, record["head"] = _with_head(model, aligned, seed)
    return replace(model, about={**model.about, "adapted": record}), record


def with_speaker(model: AcousticModel, moments: Moments, transform: Array | None) -> AcousticModel:
    """The model with the moments of a speaker in its prior, and the transform of the speaker in its view."""
    stage, unadapted = model.stage, model.unadapted
    if transform is not None:
        matrix = _after(transform, stage.view, len(moments.mean))
        stage, unadapted = replace(stage, view=View(stage.view.deltas, stage.view.context, matrix)), None
    prior = None if model.prior is None else model.prior.of_speaker(moments)
    return replace(model, prior=prior, stage=stage, unadapted=unadapted)


def _after(transform: Array, view: View, num_inputs: int) -> Array:
    """The view's matrix M [r, d], or [M, m] with an offset, followed by A x + b: [A M, A m + b]."""
    A, b = transform[:, :-1], transform[:, -1]
    if view.matrix is None:
        return transform
    columns = num_inputs * (view.deltas + 1) * (2 * view.context + 1)
    offset = view.matrix[:, columns] if view.matrix.shape[1] > columns else np.zeros(len(view.matrix))
    return np.column_stack([A @ view.matrix[:, :columns], A @ offset + b])


def map_means(mixtures: Mixtures, statistics: MixtureStatistics, *, tau: float) -> Mixtures:
    """Means (tau m + sum_t gamma_t x_t) / (tau + sum_t gamma_t), those of maximum a posteriori probability.

    `tau` is the number of frames that the old means count for; weights and variances are unchanged.
    Source: Gauvain & Lee 1994.
    """
    weight = checks.positive_float("tau", tau)
    means = (weight * mixtures.means + statistics.first) / (weight + statistics.occupancy)[:, None]
    return Mixtures(mixtures.sizes, mixtures.weights, means, mixtures.variances)


def _with_map(
    model: AcousticModel, aligned: AlignedData, data: RecordedData, tau: float
) -> tuple[AcousticModel, dict[str, float]]:
    mixtures, unadapted = model.stage.mixtures, model.unadapted
    names = list(aligned.states)
    X, y = (np.concatenate([part[name] for name in names]) for part in (aligned.frames, aligned.states))
    statistics = accumulate(mixtures, X, y)
    adapted = map_means(mixtures, statistics, tau=tau)
    gain = accumulate(adapted, X, y).log_likelihood - statistics.log_likelihood
    if unadapted is not None:
        plain = np.concatenate([model.stage.view(data.cepstra[name]) for name in names])
        unadapted = map_means(unadapted, accumulate(unadapted, plain, y), tau=tau)
    stage = replace(model.stage, mixtures=adapted)
    return replace(model, stage=stage, unadapted=unadapted), {"gain": gain / len(y), "frames": len(y)}


def _with_head(model: AcousticModel, aligned: AlignedData, seed: int) -> tuple[AcousticModel, dict[str, Any]]:
    if model.module is None:
        raise ValueError("head trains the last layer of a classifier, but the model is a GMM; use map.")
    names = list(aligned.states)
    heldout = names[:: max(2, min(HELDOUT_STEP, len(names)))]
    if len(heldout) == len(names):
        raise ValueError(
            f"head needs at least 2 utterances, one of them held out for early stopping, got {len(names)}."
        )
    rows = {part: _rows(model, aligned, ids) for part, ids in
            (("train", [n for n in names if n not in heldout]), ("heldout", heldout))}  # fmt: skip
    last = last_layer(model.module)
    parameters = list(last.head.parameters())
    for parameter in parameters:
        parameter.requires_grad_(True)
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    generator = torch.Generator().manual_seed(checks.nonnegative_int("seed", seed))
    losses = [_cross_entropy(last, *rows["heldout"])]
    best = [parameter.detach().clone() for parameter in parameters]
    X, y = rows["train"]
    for _ in range(MAX_EPOCHS):
        for places in torch.randperm(len(y), generator=generator).split(BATCH_ROWS):
            optimizer.zero_grad()
            nn.functional.cross_entropy(last(X[places]), y[places]).backward()
            optimizer.step()
        losses.append(_cross_entropy(last, *rows["heldout"]))
        if losses[-1] > min(losses[:-1]):
            break
        best = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, value in zip(parameters, best, strict=True):
            parameter.copy_(value)
    return replace(model, module=with_last_layer(model.module, last)), {"heldout_ce": losses}


def _rows(model: AcousticModel, aligned: AlignedData, ids: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Spliced rows on the device of the model, and their states."""
    assert model.module is not None
    like = next(model.module.parameters())
    X = torch.cat([model.splicer(torch.from_numpy(np.array(aligned.frames[name], np.float32))) for name in ids])
    y = torch.from_numpy(np.concatenate([aligned.states[name] for name in ids]).astype(np.int64))
    return X.to(like), y.to(like.device)


def _cross_entropy(module: nn.Module, X: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        pairs = zip(X.split(BATCH_ROWS), y.split(BATCH_ROWS), strict=True)
        total = sum(float(nn.functional.cross_entropy(module(a), b, reduction="sum")) for a, b in pairs)
    return total / len(y)
