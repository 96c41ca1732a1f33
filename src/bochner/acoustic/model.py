"""A self-contained acoustic model: front end, transforms, classifier, priors, HMM, lexicon and graph."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor, nn

from bochner import checks
from bochner.acoustic.decoding import Scores, Weights
from bochner.acoustic.online import PartialTranscript, StreamSettings, transcribe_stream
from bochner.acoustic.spliced_frames import SplicedFrames, Splicer
from bochner.acoustic.transcription import Transcript, TranscriptSettings, speech_likelihood, transcribe
from bochner.speech.align import Alignments, GmmHmm
from bochner.speech.decode import log_priors, scaled_likelihoods
from bochner.speech.frontend import Mfcc, Plp
from bochner.speech.frontend.speaker_prior import SpeakerPrior
from bochner.speech.graph import DecodingGraph
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import Hmm
from bochner.speech.lexicon import Lexicon, read_lexicon, read_probabilities, write_lexicon, write_probabilities
from bochner.speech.lm import NgramModel, read_arpa, write_arpa
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import front_end_from
from bochner.speech.text_files import parse_json
from bochner.stages import write_json
from bochner.storage import Storable, load, read_tensors, save, write_tensors

Array = NDArray[Any]
VERSION = 1
GRAMMAR = "grammar.arpa.gz"
DESCRIPTION, MODULE, SPLICER = "model.json", "module.safetensors", "splicer.safetensors"
PRIORS, PRIOR, LEXICON = "priors.safetensors", "speaker_prior.safetensors", "lexicon.txt"
UNADAPTED = "unadapted_mixtures.safetensors"
PROBABILITIES = "lexiconp.txt"  # of pronunciations
TILE_ROWS = 1024  # rows whose features are computed at once: 400 MB at 100,000 features
# Factors of the log likelihoods of a classifier and of the unadapted mixtures. Diagonal Gaussians count correlated
# dimensions several times, so that a smaller factor gives the mixtures about the same influence.
UNADAPTED_SHARES = (0.7, 0.3)


@dataclass(frozen=True, eq=False)
class AcousticModel:
    """p(x | state) ~ p(state | x) / p(state), with the HMM and the graph that turn it into words.

    `module` maps rows of `splicer` to logits [N, S]; without a module the model is the mixtures of `stage`. `stage` is
    the GMM-HMM of the alignment: its transforms precede the splicer, and its mixtures give the transforms of new
    speakers if the model was trained on `adapted` speakers. `front_end` computes cepstra of recordings; None if the
    corpus provided frames. `prior` gives the moments of the speaker of a recording; `likelihood` is the mean and
    standard deviation of the log likelihood of speech of heldout by the mixtures, in chunks of 25 frames; `grammar` is
    the language model of the graph. These three are None in models saved by 0.1. `about` describes the settings.
    `shares` are the factors of the log likelihoods of the module and of the mixtures, whose sum decodes; without a
    module, the mixtures decode alone. `unadapted` takes the place of the mixtures of `stage` for frames that are not
    adapted to their speaker, see `speaker_independent`, and `unadapted_weights`, unless None, that of `weights`.
    """

    module: nn.Module | None
    splicer: Splicer
    log_priors: Array
    stage: GmmHmm
    lexicon: Lexicon
    graph: DecodingGraph
    front_end: Mfcc | Plp | None
    adapted: bool
    weights: Weights
    about: Mapping[str, Any]
    prior: SpeakerPrior | None = None
    likelihood: tuple[float, float] | None = None
    grammar: NgramModel | None = None
    shares: tuple[float, float] = (1.0, 0.0)
    unadapted: Mixtures | None = None
    unadapted_weights: Weights | None = None

    @classmethod
    def of(
        cls,
        module: nn.Module | None,
        rows: SplicedFrames,
        aligned: AlignedCorpus,
        *,
        weights: Weights | None = None,
        about: Mapping[str, Any] | None = None,
        single_recordings: bool = True,
    ) -> AcousticModel:
        """The model of a module trained on `rows`, the part train of `aligned`, or the GMM of `aligned`.

        Priors are relative state counts. Without `single_recordings` there are no `unadapted` mixtures.
        """
        stage = replace(aligned.gmm, alignments=Alignments(), transforms={})
        priors = log_priors(rows.states.numpy(), num_pdfs=aligned.num_states)
        model = cls(
            module, rows.splicer, priors, stage, aligned.corpus.lexicon, aligned.graph, aligned.front_end,
            bool(aligned.gmm.transforms), weights or Weights(), dict(about or {}), aligned.prior, None, aligned.grammar,
            unadapted=aligned.unadapted_mixtures if single_recordings else None,
        )  # fmt: skip
        scores = [speech_likelihood(model, aligned.frames[n], aligned.states[n]) for n in aligned.ids("heldout")]
        chunks = np.concatenate([np.zeros(0), *scores])
        return replace(model, likelihood=(float(chunks.mean()), float(chunks.std()))) if len(chunks) > 1 else model

    @cached_property
    def penalized_graph(self) -> DecodingGraph:
        """The graph with the word penalty of `weights`."""
        return self.graph.with_word_penalty(self.weights.word_penalty)

    @cached_property
    def speaker_independent(self) -> AcousticModel:
        """The model of frames that are not adapted to their speaker.

        A classifier and the mixtures of unadapted frames (`AlignedCorpus.unadapted_mixtures`) decode together, since
        they make different errors on voices unlike those of train. A combination with a GMM keeps its `shares`.
        """
        if self.unadapted is None:
            return self
        stage, weights = replace(self.stage, mixtures=self.unadapted), self.unadapted_weights or self.weights
        shares = self.shares if self.uses_mixtures else UNADAPTED_SHARES
        return replace(self, stage=stage, weights=weights, shares=shares, unadapted=None)

    @property
    def frame_times(self) -> tuple[float, float]:
        """Seconds from one frame to the next, and the time of the first."""
        if self.front_end is None:
            return 0.01, 0.0
        return self.front_end.frame_shift, (self.front_end.frame_length - self.front_end.frame_shift) / 2

    @property
    def hmm(self) -> Hmm:
        return self.stage.hmm

    @property
    def uses_mixtures(self) -> bool:
        """Whether the mixtures of `stage` take part in decoding."""
        return self.module is None or self.shares[1] != 0.0

    def log_posteriors(self, frames: Array) -> Array:
        """log p(state | x_t) [T, S], float32, for the frames [T, d] of an utterance after the transforms of `stage`."""
        shares = (0.0, 1.0) if self.module is None else self.shares
        if shares in ((1.0, 0.0), (0.0, 1.0)):
            return self._of_module(frames) if shares[0] else self._of_mixtures(frames)
        members = zip(shares, (self._of_module, self._of_mixtures), strict=True)
        joint = self.log_priors + sum(share * (logs(frames) - self.log_priors) for share, logs in members if share)
        return _normalized(joint)

    def _of_module(self, frames: Array) -> Array:
        assert self.module is not None
        like = next(self.module.parameters())
        rows = self.splicer(torch.from_numpy(np.array(frames, dtype=np.float32)))
        with torch.no_grad():
            logits = torch.cat([self.module(part.to(like)) for part in rows.split(TILE_ROWS)])
        log_posteriors: Array = logits.log_softmax(dim=1).float().cpu().numpy()
        return log_posteriors

    def _of_mixtures(self, frames: Array) -> Array:
        return _normalized(self.stage.mixtures.log_likelihoods(np.asarray(frames)) + self.log_priors)

    def log_likelihoods(self, frames: Array) -> Array:
        """log p(x_t | state) [T, S] up to a constant for each t: posteriors divided by priors."""
        return scaled_likelihoods(self.log_posteriors(frames), self.log_priors)

    def scores(self, frames: Mapping[str, Array]) -> Scores:
        """A function from utterance ids to log likelihoods, for decoding and alignment."""
        return lambda name: self.log_likelihoods(frames[name])

    def transcribe(self, audio: str | os.PathLike[str], settings: TranscriptSettings | None = None) -> Transcript:
        """The words of a recording of one speaker, with times; see `bochner.acoustic.transcription.transcribe`."""
        return transcribe(self, [Path(audio)], settings)[0]

    def transcribe_stream(
        self, blocks: Iterable[Array], settings: StreamSettings | None = None
    ) -> Iterator[PartialTranscript]:
        """The words of a stream of samples as it arrives; see `bochner.acoustic.online.transcribe_stream`."""
        return transcribe_stream(self, blocks, settings)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write a self-contained directory, without pickle; no file is left after an error."""
        final = Path(directory)
        if final.exists() and any(final.iterdir()):
            raise ValueError(f"directory must be new or empty, got {final}, which contains files.")
        partial = final.with_name(f"{final.name}.{secrets.token_hex(8)}.part")
        partial.mkdir(parents=True)
        try:
            self._write(partial)
            partial.replace(final)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise

    @classmethod
    def load(cls, directory: str | os.PathLike[str], *, device: str = "cpu") -> AcousticModel:
        path = Path(directory)
        description = _read_description(path)
        return cls(
            load(path / MODULE, device=device) if (path / MODULE).exists() else None,
            load(path / SPLICER),
            read_tensors(path / PRIORS)[0]["log_priors"].numpy(),
            GmmHmm.load(path / "stage"),
            _read_lexicon(path, silence=description["silence"]),
            DecodingGraph.load(path / "graph"),
            front_end_from(description["front_end"]),
            description["adapted"],
            Weights(**description["weights"]),
            description["about"],
            SpeakerPrior.load(path / PRIOR) if (path / PRIOR).exists() else None,
            tuple(description["likelihood"]) if description.get("likelihood") else None,
            read_arpa(path / GRAMMAR) if (path / GRAMMAR).exists() else None,
            tuple(description.get("shares", (1.0, 0.0))),
            Mixtures.load(path / UNADAPTED) if (path / UNADAPTED).exists() else None,
            Weights(**description["unadapted_weights"]) if description.get("unadapted_weights") else None,
        )

    def _write(self, directory: Path) -> None:
        if self.module is not None:
            save(self.module, directory / MODULE)
        save(self.splicer, directory / SPLICER)
        write_tensors(directory / PRIORS, {"log_priors": torch.from_numpy(self.log_priors)}, {"version": VERSION})
        self.stage.save(directory / "stage")
        if self.prior is not None:
            self.prior.save(directory / PRIOR)
        if self.unadapted is not None:
            self.unadapted.save(directory / UNADAPTED)
        write_lexicon(directory / LEXICON, self.lexicon)
        if self.lexicon.probabilities:
            write_probabilities(directory / PROBABILITIES, self.lexicon)
        self.graph.save(directory / "graph")
        if self.grammar is not None:
            write_arpa(directory / GRAMMAR, self.grammar)
        description = {
            "version": VERSION,
            "front_end": None if self.front_end is None else self.front_end.options(),
            "adapted": self.adapted,
            "silence": self.lexicon.silence,
            "weights": vars(self.weights),
            "unadapted_weights": None if self.unadapted_weights is None else vars(self.unadapted_weights),
            "likelihood": self.likelihood,
            "shares": self.shares,
            "about": dict(self.about),
        }
        write_json(directory / DESCRIPTION, description)


def _normalized(joint: Array) -> Array:
    """log p(s | x) from log p(s, x) + constant."""
    return (joint - logsumexp(joint, axis=1, keepdims=True)).astype(np.float32)


def _read_lexicon(directory: Path, *, silence: str | None) -> Lexicon:
    lexicon = read_lexicon(directory / LEXICON, silence=silence)
    if not (directory / PROBABILITIES).exists():
        return lexicon
    return Lexicon(lexicon.entries, silence, read_probabilities(directory / PROBABILITIES))


def _read_description(directory: Path) -> dict[str, Any]:
    path = directory / DESCRIPTION
    try:
        description: dict[str, Any] = parse_json(path.read_bytes())
        if description["version"] != VERSION:
            raise ValueError(f"version {description['version']!r}, this bochner reads {VERSION}")
        return description
    except FileNotFoundError as error:
        raise ValueError(f"{directory} must be the directory of an acoustic model; it has no {DESCRIPTION}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the description of an acoustic model: {error!r}.") from error


class Combination(Storable):
    """log p(s | x) = sum_i w_i log p_i(s | x) - log Z(x): the weighted mean of log posteriors.

    The mean of logits is the same model, as they differ by a constant for each x. X [N, d] -> [N, S], at the cost of
    all models. Source: Lu et al. 2016 (blocks of features); Hinton et al. 2012 (system combination).

    >>> Combination([nn.Identity(), nn.Identity()], torch.tensor([0.5, 0.5]))(torch.zeros(1, 2)).exp()
    tensor([[0.5000, 0.5000]])
    """

    shares: Tensor

    def __init__(self, models: Sequence[nn.Module], shares: Tensor) -> None:
        super().__init__()
        if len(models) == 0 or shares.shape != (len(models),):
            raise ValueError(f"shares must be [{len(models)}], one for each model, got {tuple(shares.shape)}.")
        self.models = nn.ModuleList(models)
        self.register_buffer("shares", checks.finite("shares", shares))

    def forward(self, X: Tensor) -> Tensor:
        logs = (share * model(X).log_softmax(dim=1) for share, model in zip(self.shares, self.models, strict=True))
        return torch.stack(list(logs)).sum(dim=0)


def combine(models: Sequence[AcousticModel], *, shares: Sequence[float] | None = None) -> AcousticModel:
    """The combination of models of the same frames and states, with equal shares by default.

    Classifiers are combined by the mean of their log posteriors. A GMM, which must be the last model, joins them by a
    sum of log likelihoods: share w of a GMM gives (1 - w) log p_c(x | s) + w (a_g / a_c) log p_g(x | s), where a are
    the acoustic weights tuned for either model by itself, so that both count equally at w = 1/2, and w = 0 and w = 1
    are the single models. Source: Hinton et al. 2012.
    """
    first, last = models[0], models[-1]
    for other in models[1:]:
        if str(other.splicer) != str(first.splicer) or other.hmm.num_pdfs != first.hmm.num_pdfs:
            raise ValueError("models must have the same frames, context and states to be combined.")
    if any(model.uses_mixtures for model in models[:-1]):
        raise ValueError("of models to be combined only the last may be, or contain, a GMM.")
    shares = [1 / len(models)] * len(models) if shares is None else list(shares)
    about = {"combination": [dict(model.about) for model in models], "shares": shares}
    if last.module is None:
        if len(models) != 2:
            raise ValueError(f"a GMM can be combined with one model, got {len(models) - 1}; combine those first.")
        scale = last.weights.acoustic_weight / first.weights.acoustic_weight
        return replace(first, shares=(shares[0], shares[1] * scale), about=about)
    module = Combination([model.module for model in models if model.module is not None], torch.tensor(shares))
    return replace(first, module=module, about=about)
