"""What `bochner speech decode` does: language model, graph, weights tuned on dev, hypotheses."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bochner.cli.report import say
from bochner.cli.speech.alignment import forced
from bochner.cli.speech.corpus import SpeechCorpus
from bochner.cli.speech.protocols import protocol_for
from bochner.cli.speech.scoring import write_for_sclite
from bochner.cli.speech.steps import Step
from bochner.speech.align import STAGES, Recipe, Stage, adapt_stage
from bochner.speech.decode import Search, decode_utterances, tune
from bochner.speech.frames import FrameStore
from bochner.speech.graph import cached_graph
from bochner.speech.graph.decoding import DecodingGraph
from bochner.speech.lm import estimate, write_arpa
from bochner.speech.lm.model import NgramModel
from bochner.speech.manifest import Utterance
from bochner.speech.score import Protocol
from bochner.speech.score import score as count_errors
from bochner.speech.skipped import summarize
from bochner.storage import write_atomically

RECORD, TUNING = "decode.json", "tuning.json"
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts too small to estimate them from
UNTUNED = (0.1, 0.0)
Scores = Callable[[str], Any]


@dataclass(frozen=True)
class Asked:
    """The options of the command."""

    part: str
    stage: str | None
    order: int
    acoustic_weight: float | None
    word_penalty: float | None
    beam: float
    max_active: int


def decode_corpus(folder: Path, aligned: Path, asked: Asked, *, out: Path | None, workers: int) -> None:
    """Hypotheses of a part in `out`; what is there already is kept."""
    corpus, stage = SpeechCorpus.read(folder), _stage_name(aligned, asked.stage)
    said = corpus.part(asked.part)
    target = out or aligned / "decoded" / f"{asked.part}_{stage}_order{asked.order}"
    settings = {"corpus": corpus.fingerprint, "aligned": str(aligned.resolve()), **asdict(asked), "stage": stage}
    step = Step(target / RECORD, settings)
    found = step.begin()
    if found is None:
        found = recognise(corpus, aligned, stage, said, target, asked, workers=workers)
        step.finish(found)
    else:
        say("decoded", f"{target} was finished already")
    say_decoded(found, folder, target)


def recognise(
    corpus: SpeechCorpus, aligned: Path, stage: str, said: list[Utterance], target: Path, asked: Asked, *, workers: int
) -> dict[str, Any]:
    """Language model, graph, tuning, search."""
    frames, search = FrameStore(aligned / "frames"), Search(beam=asked.beam, max_active=asked.max_active)
    grammar = language_model(corpus, asked.order)
    write_arpa(target / "language_model.arpa", grammar)
    say("grammar", f"{asked.order}-gram of the text of train, {grammar.num_grams} n-grams")

    def graph_of(trained: Stage) -> DecodingGraph:
        return cached_graph(aligned / "graphs", hmm=trained.hmm, lexicon=corpus.lexicon, grammar=grammar)

    def scores_of(utterances: list[Utterance]) -> Scores:
        return _scores(corpus, aligned, stage, frames, utterances, graph_of, search, target, workers)

    graph = graph_of(Stage.load(aligned / stage))
    say("graph", f"{graph.fst.num_states:,} states, kept in {aligned / 'graphs'}")
    weight, penalty, protocol = _weights(corpus, graph, scores_of, asked, search, target)
    began = time.perf_counter()
    decoded = decode_utterances(
        target, graph=graph, likelihoods=scores_of(said), ids=[one.id for one in said], acoustic_weight=weight,
        word_penalty=penalty, search=search, workers=workers, progress=sys.stderr.isatty(),
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


def say_decoded(found: dict[str, Any], folder: Path, target: Path) -> None:
    speed = found["speech_seconds"] / max(found["seconds"], 1e-9)
    say(
        "weights", f"acoustic {found['acoustic_weight']:g}, word penalty {found['word_penalty']:g} ({found['weights']})"
    )
    say("decoded", f"{found['utterances']:,} utterances by {found['stage']}, {found['skipped']}")
    say("", f"{found['seconds']:.1f} s for {found['speech_seconds']:,.0f} s of speech, {speed:.0f} times real time")
    say("next", shlex.join(["bochner", "speech", "score", str(folder), str(target)]))


def _stage_name(aligned: Path, asked: str | None) -> str:
    trained = [name for name in STAGES if (aligned / name / "stage.json").exists()]
    if not trained or (asked is not None and asked not in trained):
        raise ValueError(
            f"{aligned} must hold the stage {asked or 'of a GMM'}, got {trained or 'none'}; run `bochner speech align`."
        )
    return asked or trained[-1]


def _scores(
    corpus: SpeechCorpus,
    aligned: Path,
    name: str,
    frames: FrameStore,
    utterances: list[Utterance],
    graph_of: Callable[[Stage], DecodingGraph],
    search: Search,
    target: Path,
    workers: int,
) -> Scores:
    """Log likelihoods by utterance id; after SAT with the speakers adapted to by a first pass."""
    stage = Stage.load(aligned / name)
    if not stage.transforms:
        return stage.scores(frames, corpus.speaker_of)
    before = Stage.load(aligned / "lda_mllt")
    first = decode_utterances(
        target / f"first_pass_{utterances[0].part}",
        graph=graph_of(before),
        likelihoods=before.scores(frames, corpus.speaker_of),
        ids=[said.id for said in utterances],
        acoustic_weight=UNTUNED[0],
        search=search,
        workers=workers,
    )
    heard = [said.replace(text=" ".join(first.words[said.id])) for said in utterances if first.words.get(said.id)]
    paths = forced(before, corpus, frames, heard, Recipe(), workers=workers).paths
    speakers = {said.id: said.speaker for said in heard}
    return adapt_stage(stage, frames, speakers, paths=paths, hmm=before.hmm).scores(frames, corpus.speaker_of)


def _weights(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores_of: Callable[[list[Utterance]], Scores],
    asked: Asked,
    search: Search,
    target: Path,
) -> tuple[float, float, str]:
    """Weight and penalty, and where they are from: given, or of least error on dev, or neither."""
    if asked.acoustic_weight is not None and asked.word_penalty is not None:
        return asked.acoustic_weight, asked.word_penalty, "as given"
    if "dev" not in corpus.parts:
        weight = UNTUNED[0] if asked.acoustic_weight is None else asked.acoustic_weight
        penalty = UNTUNED[1] if asked.word_penalty is None else asked.word_penalty
        return weight, penalty, "not tuned: the corpus has no part dev"
    file = target / TUNING
    if not file.exists():
        found = _tuned(corpus, graph, scores_of, asked, search)
        write_atomically(file, json.dumps(found, indent=1).encode())
    stored = json.loads(file.read_bytes())
    return stored["acoustic_weight"], stored["word_penalty"], stored["protocol"]


def _tuned(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores_of: Callable[[list[Utterance]], Scores],
    asked: Asked,
    search: Search,
) -> dict[str, Any]:
    dev, protocol = corpus.part("dev"), protocol_for(corpus, None)
    given: dict[str, Any] = {}
    if asked.acoustic_weight is not None:
        given["acoustic_weights"] = (asked.acoustic_weight,)
    if asked.word_penalty is not None:
        given["word_penalties"] = (asked.word_penalty,)
    found = tune(
        graph, scores_of(dev), dev, error=_error_rate(protocol), search=search, progress=sys.stderr.isatty(), **given
    )
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


def _numbered(sentences: Iterable[Sequence[str]]) -> dict[str, str]:
    return {str(number): " ".join(words) for number, words in enumerate(sentences)}
