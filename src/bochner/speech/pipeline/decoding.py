"""Decoding a part of a corpus: language model, graph, weights tuned on dev, hypotheses."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.speech.align import STAGES, GmmHmm, Recipe, adapt_stage
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.decode import Search, decode_utterances, tune
from bochner.speech.frames import FrameStore
from bochner.speech.graph import DecodingGraph, cached_graph
from bochner.speech.lm import estimate, write_arpa
from bochner.speech.lm.ngram import NgramModel
from bochner.speech.manifest import Utterance
from bochner.speech.pipeline.alignment import Work, forced
from bochner.speech.pipeline.scoring import protocol_for, write_for_sclite
from bochner.speech.pipeline.steps import Step
from bochner.speech.score import Protocol
from bochner.speech.score import score as count_errors
from bochner.speech.text_files import parse_json, summarize
from bochner.storage import write_atomically

RECORD, TUNING = "decode.json", "tuning.json"
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts too small to estimate them from
UNTUNED = (0.1, 0.0)
Scores = Callable[[str], NDArray[Any]]
"""Log likelihoods [T, num_pdfs] of an utterance id."""


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """What is recognised and how; `bochner speech decode --help` explains each."""

    part: str = "test"
    stage: str | None = None
    order: int = 2
    acoustic_weight: float | None = None
    word_penalty: float | None = None
    beam: float = 11.0
    max_active: int = 2500

    @property
    def search(self) -> Search:
        return Search(beam=self.beam, max_active=self.max_active)


def decode_corpus(
    folder: Path, aligned: Path, settings: DecodeSettings, *, out: Path | None = None, work: Work | None = None
) -> dict[str, Any]:
    """Hypotheses of a part in `out`; what is there already is kept. Returns what its decode.json says."""
    work = work or Work()
    corpus, stage = SpeechCorpus.read(folder), stage_name(aligned, settings.stage)
    said = corpus.part(settings.part)
    target = out or aligned / "decoded" / f"{settings.part}_{stage}_order{settings.order}"
    asked = {"corpus": corpus.fingerprint, "aligned": str(aligned.resolve()), **asdict(settings), "stage": stage}
    step = Step(target / RECORD, asked)
    found = step.begin()
    if found is None:
        found = recognise(corpus, aligned, stage, said, target, settings, work)
        step.finish(found)
    else:
        work.say("decoded", f"{target} was finished already")
    return {**found, "folder": str(target)}


def recognise(
    corpus: SpeechCorpus,
    aligned: Path,
    stage: str,
    said: list[Utterance],
    target: Path,
    settings: DecodeSettings,
    work: Work,
) -> dict[str, Any]:
    """Language model, graph, tuning, search."""
    grammar = language_model(corpus, settings.order)
    write_arpa(target / "language_model.arpa", grammar)
    work.say("grammar", f"{settings.order}-gram of the text of train, {grammar.num_grams} n-grams")
    pass_of = FirstPass(corpus, aligned, grammar, settings.search, work)

    def scores_of(utterances: list[Utterance]) -> Scores:
        return pass_of.adapted(stage, utterances, target).scores(pass_of.frames, corpus.speaker_of)

    graph = pass_of.graph(GmmHmm.load(aligned / stage))
    work.say("graph", f"{graph.fst.num_states:,} states, kept in {aligned / 'graphs'}")
    weight, penalty, protocol = _weights(corpus, graph, scores_of, settings, target, work)
    began = time.perf_counter()
    decoded = decode_utterances(
        target, graph=graph, likelihoods=scores_of(said), ids=[one.id for one in said], acoustic_weight=weight,
        word_penalty=penalty, search=settings.search, workers=work.workers, progress=work.progress,
    )  # fmt: skip
    seconds = time.perf_counter() - began
    texts = {name: " ".join(words) for name, words in decoded.words.items()}
    write_for_sclite(target / "hypotheses.trn", texts, Protocol(), corpus.speaker_of)
    return {
        "utterances": len(texts), "skipped": summarize(decoded.skipped), "stage": stage, "weights": protocol,
        "acoustic_weight": weight, "word_penalty": penalty, "seconds": round(seconds, 2),
        "speech_seconds": round(sum(one.duration for one in said), 2),
    }  # fmt: skip


def language_model(corpus: SpeechCorpus, order: int) -> NgramModel:
    """An n-gram of what is said in train, over the words that can be said at all."""
    texts = [said.text for said in corpus.part("train")]
    return estimate(texts, order=order, vocabulary=corpus.lexicon.words, fallback_discounts=FALLBACK_DISCOUNTS)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Adaptation to new speakers by what the stage before SAT recognises: their references are never read."""

    corpus: SpeechCorpus
    aligned: Path
    grammar: NgramModel
    search: Search
    work: Work

    @cached_property
    def frames(self) -> FrameStore:
        return FrameStore(self.aligned / "frames")

    def graph(self, stage: GmmHmm) -> DecodingGraph:
        return cached_graph(self.aligned / "graphs", hmm=stage.hmm, lexicon=self.corpus.lexicon, grammar=self.grammar)

    def adapted(self, name: str, utterances: Sequence[Utterance], target: Path) -> GmmHmm:
        """The stage of that name; after SAT, with transforms of these utterances' speakers."""
        stage = GmmHmm.load(self.aligned / name)
        if not stage.transforms:
            return stage
        before = GmmHmm.load(self.aligned / "lda_mllt")
        first = decode_utterances(
            target / f"first_pass_{utterances[0].part}",
            graph=self.graph(before),
            likelihoods=before.scores(self.frames, self.corpus.speaker_of),
            ids=[said.id for said in utterances],
            acoustic_weight=UNTUNED[0],
            search=self.search,
            workers=self.work.workers,
        )
        heard = [said.replace(text=" ".join(first.words[said.id])) for said in utterances if first.words.get(said.id)]
        paths = forced(before, self.corpus, self.frames, heard, Recipe(), self.work).paths
        speakers = {said.id: said.speaker for said in heard}
        return adapt_stage(stage, self.frames, speakers, paths=paths, hmm=before.hmm)


def stage_name(aligned: Path, asked: str | None) -> str:
    """The stage asked for, or the last that was trained."""
    trained = [name for name in STAGES if (aligned / name / "stage.json").exists()]
    if not trained or (asked is not None and asked not in trained):
        raise ValueError(
            f"{aligned} must hold the stage {asked or 'of a GMM'}, got {trained or 'none'}; run `bochner speech align`."
        )
    return asked or trained[-1]


def _weights(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores_of: Callable[[list[Utterance]], Scores],
    settings: DecodeSettings,
    target: Path,
    work: Work,
) -> tuple[float, float, str]:
    """Weight and penalty, and where they are from: given, or of least error on dev, or neither."""
    if settings.acoustic_weight is not None and settings.word_penalty is not None:
        return settings.acoustic_weight, settings.word_penalty, "as given"
    if "dev" not in corpus.parts:
        weight = UNTUNED[0] if settings.acoustic_weight is None else settings.acoustic_weight
        penalty = UNTUNED[1] if settings.word_penalty is None else settings.word_penalty
        return weight, penalty, "not tuned: the corpus has no part dev"
    file = target / TUNING
    if not file.exists():
        given = {"acoustic_weights": settings.acoustic_weight, "word_penalties": settings.word_penalty}
        grids: dict[str, Any] = {name: (value,) for name, value in given.items() if value is not None}
        dev = corpus.part("dev")
        found = tuned(corpus, graph, scores_of(dev), search=settings.search, progress=work.progress, **grids)
        write_atomically(file, json.dumps(found, indent=1).encode())
    return read_tuning(file)


def read_tuning(file: Path) -> tuple[float, float, str]:
    """Weight and penalty that were found on dev, and by which protocol."""
    try:
        stored = parse_json(file.read_bytes())
        return float(stored["acoustic_weight"]), float(stored["word_penalty"]), str(stored["protocol"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} does not hold tuned weights: {error!r}; delete it to tune them anew.") from error


def tuned(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores: Scores,
    *,
    search: Search | None = None,
    progress: bool = False,
    **grids: Any,
) -> dict[str, Any]:
    """The weight and penalty of least error on dev by the corpus's usual protocol, with all that were tried."""
    dev, protocol = corpus.part("dev"), protocol_for(corpus, None)
    found = tune(graph, scores, dev, error=_error_rate(protocol), search=search, progress=progress, **grids)
    return {
        "acoustic_weight": found.acoustic_weight,
        "word_penalty": found.word_penalty,
        "protocol": f"least {protocol.name} on {len(dev)} utterances of dev, {100 * found.error:.2f} %",
        "errors": [[*setting, error] for setting, error in found.errors.items()],
        "skipped": [one._asdict() for one in found.skipped],
    }


def _error_rate(protocol: Protocol) -> Callable[[Sequence[Sequence[str]], Sequence[Sequence[str]]], float]:
    def rate(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> float:
        return count_errors(_numbered(references), _numbered(hypotheses), protocol=protocol).rate

    return rate


def _numbered(sentences: Iterable[Sequence[str]]) -> Mapping[str, str]:
    return {str(number): " ".join(words) for number, words in enumerate(sentences)}
