"""Decoding a part of a corpus: language model, graph, weights tuned on dev, hypotheses."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bochner.speech.align import STAGES, GmmHmm, Recipe, adapt_to_speakers, phone_segments
from bochner.speech.align.labels import count_pronunciations
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.decode import Search, decode_utterances, tune
from bochner.speech.frames import Array, FrameStore
from bochner.speech.graph import DecodingGraph, cached_graph
from bochner.speech.lexicon import Lexicon
from bochner.speech.lm import NgramModel, estimate, write_arpa
from bochner.speech.manifest import Utterance
from bochner.speech.pipeline.alignment import Execution, force_align
from bochner.speech.pipeline.scoring import protocol_for, write_for_sclite
from bochner.speech.score import Protocol, score
from bochner.speech.text_files import parse_json, summarize
from bochner.stages import Stage, write_json

logger = logging.getLogger(__name__)
RECORD, TUNING = "decode.json", "tuning.json"
FALLBACK_DISCOUNTS = (0.5, 1.0, 1.5)  # for texts too small to estimate discounts from
DEFAULT_ACOUSTIC_WEIGHT, DEFAULT_WORD_PENALTY = 0.1, 0.0  # where there is no dev part to tune on
Scores = Callable[[str], Array]
"""Log likelihoods [T, num_pdfs] of an utterance id."""


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """The settings of decoding; `bochner speech decode --help` explains each."""

    part: str = "test"
    stage: str | None = None
    order: int = 2
    acoustic_weight: float | None = None
    word_penalty: float | None = None
    beam: float = 11.0
    max_active: int = 2500
    pronunciation_probabilities: bool = False

    @property
    def search(self) -> Search:
        return Search(beam=self.beam, max_active=self.max_active)


def decode_corpus(
    corpus: SpeechCorpus,
    aligned_dir: Path,
    settings: DecodeSettings,
    *,
    output_dir: Path | None = None,
    execution: Execution | None = None,
) -> dict[str, Any]:
    """Decode a part of the corpus with a GMM of `align_corpus`; a finished directory is only read.

    Returns the result recorded in decode.json, and its directory under "directory".
    """
    stage = stage_name(aligned_dir, settings.stage)
    target = output_dir or aligned_dir / "decoded" / f"{settings.part}_{stage}_order{settings.order}"
    inputs = {"corpus": corpus.fingerprint, "aligned": str(aligned_dir.resolve()), **asdict(settings), "stage": stage}
    record = Stage(target / RECORD, inputs)
    if record.result() is not None:
        logger.info("decoded: %s was finished already", target)
    result = record.run(lambda: _decode(corpus, aligned_dir, stage, target, settings, execution or Execution()))
    return {**result, "directory": str(target)}


def _decode(
    corpus: SpeechCorpus, aligned_dir: Path, stage: str, target: Path, settings: DecodeSettings, execution: Execution
) -> dict[str, Any]:
    utterances = corpus.part(settings.part)
    grammar = train_language_model(corpus, settings.order)
    write_arpa(target / "language_model.arpa", grammar)
    logger.info("grammar: %d-gram of the text of train, %s n-grams", settings.order, grammar.num_grams)
    first_pass = FirstPass(corpus, aligned_dir, grammar, settings.search, execution)
    model = GmmHmm.load(aligned_dir / stage)
    lexicon = with_probabilities(corpus, model) if settings.pronunciation_probabilities else None
    graph = first_pass.graph(model, lexicon)
    logger.info("graph: %s states, kept in %s", f"{graph.fst.num_states:,}", aligned_dir / "graphs")

    def scores_of(utterances: list[Utterance]) -> Scores:
        return first_pass.adapted(stage, utterances, target).scores(first_pass.frames, corpus.speaker_of)

    weight, penalty, source = _choose_weights(corpus, graph, scores_of, settings, target, execution)
    start = time.perf_counter()
    decoded = decode_utterances(
        target, graph=graph, likelihoods=scores_of(utterances), ids=[utterance.id for utterance in utterances],
        acoustic_weight=weight, word_penalty=penalty, search=settings.search, workers=execution.workers,
        verbose=execution.verbose,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    texts = {name: " ".join(words) for name, words in decoded.words.items()}
    write_for_sclite(target / "hypotheses.trn", texts, Protocol(), corpus.speaker_of)
    return {
        "utterances": len(texts), "skipped": summarize(decoded.skipped), "stage": stage, "weights": source,
        "acoustic_weight": weight, "word_penalty": penalty, "seconds": round(seconds, 2),
        "speech_seconds": round(sum(utterance.duration for utterance in utterances), 2),
    }  # fmt: skip


def train_language_model(corpus: SpeechCorpus, order: int) -> NgramModel:
    """An n-gram model of the transcripts of train, over the words of the lexicon."""
    texts = [utterance.text for utterance in corpus.part("train")]
    return estimate(texts, order=order, vocabulary=corpus.lexicon.words, fallback_discounts=FALLBACK_DISCOUNTS)


@dataclass(frozen=True, eq=False)
class FirstPass:
    """Adaptation to new speakers by hypotheses of a first pass; their transcripts are never read."""

    corpus: SpeechCorpus
    aligned_dir: Path
    grammar: NgramModel
    search: Search
    execution: Execution

    @cached_property
    def frames(self) -> FrameStore:
        return FrameStore(self.aligned_dir / "frames")

    def graph(self, model: GmmHmm, lexicon: Lexicon | None = None) -> DecodingGraph:
        """The graph of the corpus's lexicon, or of the same with probabilities."""
        graphs = self.aligned_dir / "graphs"
        return cached_graph(graphs, hmm=model.hmm, lexicon=lexicon or self.corpus.lexicon, grammar=self.grammar)

    def adapted(self, name: str, utterances: Sequence[Utterance], target: Path) -> GmmHmm:
        """The GMM of that stage; after SAT, with the transforms of these utterances' speakers.

        They are estimated from hypotheses of the stage before, then again from those of the adapted GMM.
        """
        model = GmmHmm.load(self.aligned_dir / name)
        if not model.transforms:
            return model
        decoding = GmmHmm.load(self.aligned_dir / "lda_mllt")
        for number in ("first", "second"):
            paths, speakers = self._hypotheses(decoding, utterances, target / f"{number}_pass_{utterances[0].part}")
            model = adapt_to_speakers(model, self.frames, speakers, paths=paths, hmm=decoding.hmm)
            decoding = model
        return model

    def _hypotheses(
        self, model: GmmHmm, utterances: Sequence[Utterance], target: Path
    ) -> tuple[Mapping[str, Array], dict[str, str]]:
        """The paths of the hypotheses of `model`, and the speakers of their utterances."""
        decoded = decode_utterances(
            target, graph=self.graph(model), likelihoods=model.scores(self.frames, self.corpus.speaker_of),
            ids=[utterance.id for utterance in utterances], acoustic_weight=DEFAULT_ACOUSTIC_WEIGHT,
            search=self.search, workers=self.execution.workers,
        )  # fmt: skip
        hypotheses = [
            utterance.replace(text=" ".join(decoded.words[utterance.id]))
            for utterance in utterances
            if decoded.words.get(utterance.id)
        ]
        paths = force_align(model, self.corpus, self.frames, hypotheses, Recipe(), self.execution).paths
        return paths, {utterance.id: utterance.speaker for utterance in hypotheses}


def with_probabilities(corpus: SpeechCorpus, model: GmmHmm) -> Lexicon:
    """The lexicon with the probabilities of pronunciations in the alignment of train by `model`."""
    aligned = [utterance for utterance in corpus.part("train") if utterance.id in model.alignments.paths]
    phones = (phone_segments(model.hmm, model.alignments.paths[utterance.id]) for utterance in aligned)
    silence = () if corpus.tokens_are_phones else corpus.silence_phones
    texts = (utterance.tokens for utterance in aligned)
    return corpus.lexicon.with_counts(count_pronunciations(phones, texts, corpus.lexicon, silence=silence))


def stage_name(aligned_dir: Path, name: str | None) -> str:
    """`name`, which must have been trained, or the last stage that was."""
    trained = [stage for stage in STAGES if (aligned_dir / stage / "stage.json").exists()]
    if not trained or (name is not None and name not in trained):
        raise ValueError(
            f"{aligned_dir} must hold the stage {name or 'of a GMM'}, got {trained or 'none'}; "
            "run `bochner speech align`."
        )
    return name or trained[-1]


def _choose_weights(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores_of: Callable[[list[Utterance]], Scores],
    settings: DecodeSettings,
    target: Path,
    execution: Execution,
) -> tuple[float, float, str]:
    """Acoustic weight, word penalty and their source: the settings, dev, or the defaults."""
    weight, penalty = settings.acoustic_weight, settings.word_penalty
    if weight is not None and penalty is not None:
        return weight, penalty, "as given"
    if "dev" not in corpus.parts:
        weight = DEFAULT_ACOUSTIC_WEIGHT if weight is None else weight
        penalty = DEFAULT_WORD_PENALTY if penalty is None else penalty
        return weight, penalty, "not tuned: the corpus has no part dev"
    file = target / TUNING
    if not file.exists():
        fixed = {"acoustic_weights": weight, "word_penalties": penalty}
        grids: dict[str, Any] = {name: (value,) for name, value in fixed.items() if value is not None}
        scores = scores_of(corpus.part("dev"))
        write_json(file, tune_on_dev(corpus, graph, scores, search=settings.search, execution=execution, **grids))
    return read_tuning(file)


def read_tuning(file: Path) -> tuple[float, float, str]:
    """The acoustic weight and word penalty tuned on dev, and the protocol of their error rate."""
    try:
        stored = parse_json(file.read_bytes())
        return float(stored["acoustic_weight"]), float(stored["word_penalty"]), str(stored["protocol"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file} does not hold tuned weights: {error!r}; delete it to tune again.") from error


def tune_on_dev(
    corpus: SpeechCorpus,
    graph: DecodingGraph,
    scores: Scores,
    *,
    search: Search | None = None,
    execution: Execution | None = None,
    **grids: Any,
) -> dict[str, Any]:
    """The acoustic weight and word penalty of least error on dev by the corpus's default protocol, as plain values."""
    dev, protocol = corpus.part("dev"), protocol_for(corpus, None)

    def error(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> float:
        texts = ({str(k): " ".join(words) for k, words in enumerate(side)} for side in (references, hypotheses))
        return score(*texts, protocol=protocol).rate

    options = asdict(execution or Execution())
    tuning = tune(graph, scores, dev, error=error, search=search, **options, **grids)
    return {
        "acoustic_weight": tuning.acoustic_weight,
        "word_penalty": tuning.word_penalty,
        "protocol": f"least {protocol.name} on {len(dev)} utterances of dev, {100 * tuning.error:.2f} %",
        "errors": [[*setting, error] for setting, error in tuning.errors.items()],
        "skipped": [entry._asdict() for entry in tuning.skipped],
    }
