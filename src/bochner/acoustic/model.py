"""An acoustic model with all that it takes to hear: front end, transforms, classifier, priors, HMM, words and graph."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bochner.acoustic.decoding import Scores, Weights
from bochner.acoustic.rows import LabelledRows, Splicer
from bochner.acoustic.transcript import Transcript, transcribe
from bochner.speech.align import Alignments, GmmHmm
from bochner.speech.decode import log_priors, scaled_likelihoods
from bochner.speech.frontend import Mfcc, Plp
from bochner.speech.graph import DecodingGraph
from bochner.speech.hmm.model import Hmm
from bochner.speech.lexicon import Lexicon, read_lexicon, write_lexicon
from bochner.speech.pipeline.aligned_corpus import AlignedCorpus
from bochner.speech.pipeline.alignment import front_end_from
from bochner.speech.text_files import parse_json
from bochner.storage import load, read_tensors, save, write_atomically, write_tensors

Array = NDArray[Any]
VERSION = 1
ABOUT, MODULE, SPLICER, PRIORS, LEXICON = (
    "model.json",
    "module.safetensors",
    "splicer.safetensors",
    "priors.safetensors",
    "lexicon.txt",
)
ROWS_AT_ONCE = 1024


@dataclass(frozen=True, eq=False)
class AcousticModel:
    """p(x | state) ~ p(state | x) / p(state) with the HMM and graph that turn it into words.

    `module` gives logits [N, S] of rows as `splicer` makes them; `stage` holds the HMM, the transforms before that and
    the mixtures by which new speakers are `adapted` to, where those of train were; `front_end` makes cepstra of
    recordings, None where the corpus gave frames. `about` is for the reader: the settings that made it.
    """

    module: nn.Module
    splicer: Splicer
    log_priors: Array
    stage: GmmHmm
    lexicon: Lexicon
    graph: DecodingGraph
    front_end: Mfcc | Plp | None
    adapted: bool
    weights: Weights
    about: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        module: nn.Module,
        rows: LabelledRows,
        aligned: AlignedCorpus,
        *,
        weights: Weights | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> AcousticModel:
        """The model of a module trained on `rows`, the train part of `aligned`; priors by counting its states."""
        stage = replace(aligned.gmm, alignments=Alignments(), transforms={})
        priors = log_priors(rows.states.numpy(), num_pdfs=aligned.num_states)
        return cls(
            module, rows.splicer, priors, stage, aligned.corpus.lexicon, aligned.graph, aligned.front_end,
            bool(aligned.gmm.transforms), weights or Weights(), dict(about or {}),
        )  # fmt: skip

    @property
    def hmm(self) -> Hmm:
        return self.stage.hmm

    def log_posteriors(self, frames: Array) -> Array:
        """log p(state | x_t) [T, S], float32, for the frames [T, d] of one utterance, as the stage sees them."""
        like = next(self.module.parameters())
        rows = self.splicer(torch.from_numpy(np.array(frames, dtype=np.float32)))
        with torch.no_grad():
            logits = torch.cat([self.module(part.to(like)) for part in rows.split(ROWS_AT_ONCE)])
        found: Array = logits.log_softmax(dim=1).float().cpu().numpy()
        return found

    def log_likelihoods(self, frames: Array) -> Array:
        """log p(x_t | state) up to a constant [T, S]: posteriors over priors."""
        return scaled_likelihoods(self.log_posteriors(frames), self.log_priors)

    def scores(self, frames: Mapping[str, Array]) -> Scores:
        """What decoding and alignment ask for: utterance id -> log likelihoods."""
        return lambda name: self.log_likelihoods(frames[name])

    def transcribe(self, audio: str | os.PathLike[str]) -> Transcript:
        """What is said in a recording, one speaker's, with the times of the words; see `transcribe`."""
        return transcribe(self, Path(audio))

    def save(self, directory: str | os.PathLike[str]) -> None:
        """All of it as a directory that can be moved anywhere, or after an error nothing; no pickle."""
        final = Path(directory)
        if final.exists() and any(final.iterdir()):
            raise ValueError(f"directory must be new or empty, got {final}, which holds something.")
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
        folder = Path(directory)
        about = _read_about(folder)
        return cls(
            load(folder / MODULE, device=device),
            load(folder / SPLICER),
            read_tensors(folder / PRIORS)[0]["log_priors"].numpy(),
            GmmHmm.load(folder / "stage"),
            read_lexicon(folder / LEXICON, silence=about["silence"]),
            DecodingGraph.load(folder / "graph"),
            front_end_from(about["front_end"]),
            about["adapted"],
            Weights(**about["weights"]),
            about["about"],
        )

    def _write(self, folder: Path) -> None:
        save(self.module, folder / MODULE)
        save(self.splicer, folder / SPLICER)
        write_tensors(folder / PRIORS, {"log_priors": torch.from_numpy(self.log_priors)}, {"version": VERSION})
        self.stage.save(folder / "stage")
        write_lexicon(folder / LEXICON, self.lexicon)
        self.graph.save(folder / "graph")
        about = {
            "version": VERSION,
            "front_end": None if self.front_end is None else self.front_end.options(),
            "adapted": self.adapted,
            "silence": self.lexicon.silence,
            "weights": vars(self.weights),
            "about": dict(self.about),
        }
        write_atomically(folder / ABOUT, json.dumps(about, indent=1, ensure_ascii=False).encode())


def _read_about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    try:
        about: dict[str, Any] = parse_json(path.read_bytes())
        if about["version"] != VERSION:
            raise ValueError(f"version {about['version']!r}, this bochner reads {VERSION}")
        return about
    except FileNotFoundError as error:
        raise ValueError(f"{folder} must be the directory of an acoustic model, but has no {ABOUT}.") from error
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is not the description of an acoustic model: {error!r}.") from error
