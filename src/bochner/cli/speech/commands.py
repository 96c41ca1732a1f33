"""The commands of `bochner speech`. Modules that need the extra `speech` are imported when a command runs."""

from __future__ import annotations

import logging
import shlex
import sys
from pathlib import Path
from typing import Any, Literal

from bochner.cli.logs import labelled

logger = logging.getLogger(__name__)

Kind = Literal["folder", "timit", "an4", "yesno", "digits", "kaldi", "lhotse"]
GmmStage = Literal["monophone", "triphone", "lda_mllt", "sat"]


def prepare(
    kind: Kind,
    source: Path,
    out: Path,
    *,
    speakers: Literal["folder", "prefix", "file"] | None = None,
    sizes: dict[str, int | float] | None = None,
    lexicon: str | list[str] | None = None,
    normalize: list[Literal["nfkc", "lower", "no_punctuation"]] | None = None,
    tokens: Literal["phones", "words"] | None = None,
    fold: Literal["61-49", "61-48", "61-39", "none"] | None = None,
    rate: int | None = None,
    channel: int | None = None,
    root: Path | None = None,
    language: str | None = None,
    seed: int = 0,
) -> None:
    """Prepare a corpus directory: recordings with transcripts and speakers, in four parts with disjoint speakers.

    Examples:

        bochner speech prepare folder recordings corpus
        bochner speech prepare folder recordings corpus --lexicon words.txt --speakers prefix
        bochner speech prepare folder recordings corpus --lexicon [cmudict,names.txt,g2p]
        bochner speech prepare timit TIMIT.zip corpus --tokens phones
        bochner speech prepare an4 an4_cepstra.zip corpus
        bochner speech prepare kaldi data corpus --lexicon data/local/dict/lexicon.txt

    A "folder" holds recordings, each with its transcript in a .txt file of the same name, or a table transcripts.tsv
    with the columns audio and text and optionally speaker and part. Without a lexicon the pronunciation of a word is
    its letters, in any alphabet; a lexicon of phones is more accurate.

    The parts: train; heldout, which controls training; dev, for choices; test, which is evaluated once. Recordings that
    cannot be used are listed in OUT/skipped.jsonl with the reason. See "Speech corpora" in the documentation.

    Args:
        kind: The layout of SOURCE: any "folder" of recordings, a corpus by name, "kaldi" (a directory with train/,
            dev/, test/) or "lhotse" (recordings.jsonl and supervisions.jsonl).
        source: A directory, or a zip archive of one.
        out: The corpus directory to write.
        speakers: The speaker of a recording in a "folder" without a table: the name of its folder, the prefix of its
            own name up to - or _, or each file by itself. Default: its folder if there are four, otherwise the file.
        sizes: Number or share of speakers in each part, such as '{"train": 12, "test": 4}'. For "an4" the shares of its
            training speakers: '{"heldout": 0.05, "dev": 0.05}'.
        lexicon: A file of lines `word phone phone ...`; "letters" (default if the corpus has no lexicon); "cmudict",
            English words by the CMU dictionary; or a list of these, where later ones replace the words of earlier ones,
            and "g2p", or a file of `bochner speech g2p train`, pronounces the words that those before it lack.
            Words that none has become <unk> in train and heldout, and are listed in OUT/missing_words.txt.
        normalize: Normalisation of transcripts. Default for "folder": [lower, no_punctuation]; otherwise none.
        tokens: The tokens of TIMIT: its phones (default) or its words.
        fold: Folding of TIMIT's 61 phones; "61-49" keeps the glottal stop. Default: "61-48".
        rate: Sampling rate in Hz at which the recordings in a "folder" are read; others are resampled. Default: the
            lowest of theirs, at most 16000.
        channel: Channel of recordings with several in a "folder", counted from 0. Default: their mean.
        root: Root of relative paths in Kaldi's files. Default: the working directory.
        language: Language of the utterances of "folder" and "kaldi", stored with them.
        seed: Seed of the split of speakers into parts.
    """
    from bochner.cli.speech.preparation import prepare_corpus
    from bochner.speech.corpora.corpus_directory import PreparedCorpus

    options = {
        "speakers": speakers, "sizes": sizes, "lexicon": lexicon, "normalize": normalize, "tokens": tokens,
        "fold": fold, "rate": rate, "channel": channel, "root": root, "language": language,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    finished = prepare_corpus(kind, source, out, given, seed=seed)
    _log_corpus(PreparedCorpus.read(out), finished=finished)


def _log_corpus(corpus: Any, *, finished: bool) -> None:
    """Report a PreparedCorpus."""
    head, *parts = str(corpus).splitlines()
    logger.info(labelled("corpus", head + (" (finished already)" if finished else "")))
    for line in parts:
        logger.info(labelled("", line.strip()))
    if corpus.skipped:
        logger.info(labelled("skipped", f"{corpus.directory / 'skipped.jsonl'} lists the reasons"))
    directory = str(corpus.directory)
    logger.info(labelled("next", shlex.join(["bochner", "speech", "align", directory, f"{directory}-aligned"])))


def synthesize(
    out: Path,
    *,
    language: Literal["english", "cantonese", "bengali"] = "english",
    hours: float = 0.1,
    seed: int = 0,
    num_words: int = 2000,
    minutes_per_speaker: float = 3.0,
    snr: tuple[float, float] = (5.0, 20.0),
    telephone: float = 0.5,
    babble: float = 0.3,
    rate: int = 16000,
    workers: int = 1,
) -> None:
    """Synthesize a corpus directory, with the times of all words and phones.

    Examples:

        bochner speech synthesize corpus --hours 0.1
        bochner speech synthesize corpus --language cantonese --hours 2 --workers 2
        bochner speech synthesize corpus --hours 0.1 --num_words 100 --snr [20,40] --telephone 0 --babble 0

    Voices of various speeds and pitches, in rooms, in noise and on telephones, with error rates far from zero. No voice
    and no sentence is in two parts. The same settings give the same bytes; an interrupted command is resumed when it is
    repeated. Results on synthetic speech do not apply to recordings of people.

    Requires `pip install 'bochner[synthesis]'`, whose espeak-ng is GPL-3.

    Args:
        out: The corpus directory to write.
        language: English (words), Cantonese (characters) or Bengali (words).
        hours: Duration of the corpus.
        seed: Seed of all random choices.
        num_words: Size of the vocabulary of English and Bengali.
        minutes_per_speaker: Duration per speaker; there are at least 8 speakers.
        snr: Minimum and maximum signal-to-noise ratio of a speaker, in dB.
        telephone: Share of the speakers on a telephone.
        babble: Share of the speakers among other voices.
        rate: Sampling rate in Hz.
        workers: Number of processes.
    """
    from bochner.speech.manifest import MANIFEST
    from bochner.speech.synthesis import synthesize as make

    finished = (out / MANIFEST).exists()
    corpus = make(
        out, language=language, hours=hours, seed=seed, rate=rate, num_words=num_words,
        minutes_per_speaker=minutes_per_speaker, snr=snr, telephone=telephone, babble=babble, workers=workers,
        verbose=sys.stderr.isatty(),
    )  # fmt: skip
    _log_corpus(corpus, finished=finished)


def align(
    corpus: Path,
    out: Path,
    *,
    until: GmmStage = "sat",
    frontend: Literal["mfcc", "plp"] = "mfcc",
    pitch: bool = False,
    frame_shift: float = 0.01,
    context_width: Literal[1, 3, 5] = 3,
    shared_roots: bool = False,
    start: Literal["equal", "known", "kept"] = "equal",
    num_leaves: int | None = None,
    num_gaussians: int | None = None,
    context: int = 4,
    seed: int = 0,
    workers: int = 1,
) -> None:
    """Train a GMM-HMM on the part train and align every part with it: labels of frames, times of phones and words.

    Examples:

        bochner speech align corpus aligned
        bochner speech align corpus aligned --until triphone
        bochner speech align corpus aligned --until monophone --start known
        bochner speech align corpus aligned --num_leaves 2000 --num_gaussians 10000 --workers 2

    The stages: monophone, context-independent states; triphone, states in context, tied by decision trees; lda_mllt, on
    nine spliced frames projected by LDA and MLLT; sat, on frames adapted to each speaker by fMLLR. Each stage is saved:
    a command for a later stage trains only what is missing, and an interrupted one is resumed after the last complete
    stage.

    OUT/aligned/STAGE holds phones.ctm and words.ctm, states/ (the tied state of each frame), rows/PART (spliced frames
    with their states, the input of `bochner train --task classify`) and skipped.jsonl. If the corpus has the times of
    its phones, the agreement is reported. Requires `pip install 'bochner[speech]'`.

    Args:
        corpus: A corpus directory, see `bochner speech prepare`.
        out: Directory of frames, stages and alignments.
        until: The last stage.
        frontend: Cepstra of the recordings; ignored for a corpus of frames.
        pitch: Extend the cepstra by pitch and voicing, for languages with tones.
        frame_shift: Seconds from one frame of the recordings to the next.
        context_width: Phones that tied states depend on: 3 for triphones, 5 for quinphones; 1 keeps the
            context-independent states of the monophones in all stages.
        shared_roots: Phones whose names differ only in digits at the end (stress, tones) share a root of the tree that
            ties states.
        start: Start of monophone training: states of "equal" duration, or the "known" times of phones in the corpus;
            "kept" keeps these times in all stages, for a synthetic corpus, whose times are exact.
        num_leaves: Maximal number of tied states; smaller if splits do not help held-out speakers. Default: 1.6
            sqrt(frames of train), up to 2000.
        num_gaussians: Gaussians of the tied stages. Default: one per 60 frames of train, at most 10,000.
        context: Neighbours on each side of a frame in rows/.
        seed: Seed of all random choices.
        workers: Number of processes.
    """
    from bochner.speech.align import Agreement
    from bochner.speech.corpora.corpus_directory import SpeechCorpus
    from bochner.speech.pipeline.alignment import AlignSettings, Execution, align_corpus

    speech = SpeechCorpus.read(corpus)
    settings = AlignSettings(
        until=until, frontend=frontend, pitch=pitch, frame_shift=frame_shift, context_width=context_width,
        shared_roots=shared_roots, start=start,
        num_leaves=num_leaves, num_gaussians=num_gaussians, context=context, seed=seed,
    )  # fmt: skip
    result = align_corpus(speech, out, settings, execution=Execution(workers, sys.stderr.isatty()))
    counts = f"{result['utterances']:,} utterances with {result['states']:,} states"
    logger.info(labelled("aligned", f"{counts}; {result['skipped']} skipped"))
    for part, numbers in result["agreement"].items():
        agreement = Agreement(**numbers)
        near, right = 100 * agreement.boundaries_within, 100 * agreement.frames_right
        boundaries = f"{near:.1f} % of {agreement.boundaries:,} phone boundaries within 20 ms"
        logger.info(labelled("", f"{part}: {boundaries}, {right:.1f} % of frames in the right phone"))
    target = out / "aligned" / until
    rows = f"{target}/rows/train (for bochner train --task classify)"
    logger.info(labelled("labels", f"{rows}, {target}/phones.ctm, {target}/words.ctm"))
    part = "test" if "test" in speech.parts else speech.parts[-1]
    logger.info(labelled("next", shlex.join(["bochner", "speech", "decode", str(corpus), str(out), "--part", part])))


def decode(
    corpus: Path,
    aligned: Path,
    *,
    part: Literal["heldout", "dev", "test"] = "test",
    stage: GmmStage | None = None,
    order: int = 2,
    acoustic_weight: float | None = None,
    word_penalty: float | None = None,
    beam: float = 11.0,
    max_active: int = 2500,
    pronunciation_probabilities: bool = False,
    out: Path | None = None,
    workers: int = 1,
) -> None:
    """Decode a part of the corpus with a GMM of `bochner speech align`.

    Examples:

        bochner speech decode corpus aligned
        bochner speech decode corpus aligned --part dev --order 3
        bochner speech decode corpus aligned --stage monophone --out aligned/mono
        bochner speech decode corpus aligned --acoustic_weight 0.1 --word_penalty 0

    The language model is an n-gram of the transcripts of train (modified Kneser-Ney) over the words of the lexicon. The
    graph of lexicon, language model and states is cached in ALIGNED/graphs. The acoustic weight and the word penalty
    are those of lowest error on the part dev, or 0.1 and 0 without a part dev. After SAT the speakers are adapted by
    the hypotheses of the previous stage.

    OUT holds hypotheses.jsonl, hypotheses.trn (for sclite), language_model.arpa, tuning.json and skipped.jsonl. An
    interrupted command is resumed.

    Args:
        corpus: The corpus directory.
        aligned: The directory of `bochner speech align`.
        part: The part to decode; test only when all choices are made.
        stage: One of the trained stages. Default: the last.
        order: Order of the language model, 2 for a bigram.
        acoustic_weight: Weight of the acoustic scores against the language model. Default: tuned on dev.
        word_penalty: Cost of every word; a positive penalty gives fewer words. Default: tuned on dev.
        beam: Paths with scores this far below the best are pruned.
        max_active: Maximal number of paths per frame.
        pronunciation_probabilities: Give the pronunciations of a word their probabilities in the alignment of train.
        out: Default: ALIGNED/decoded/PART_STAGE_ORDER.
        workers: Number of processes.
    """
    from bochner.speech.corpora.corpus_directory import SpeechCorpus
    from bochner.speech.pipeline.alignment import Execution
    from bochner.speech.pipeline.decoding import DecodeSettings, decode_corpus

    settings = DecodeSettings(
        part=part, stage=stage, order=order, acoustic_weight=acoustic_weight, word_penalty=word_penalty, beam=beam,
        max_active=max_active,
        pronunciation_probabilities=pronunciation_probabilities,
    )  # fmt: skip
    execution = Execution(workers, sys.stderr.isatty())
    result = decode_corpus(SpeechCorpus.read(corpus), aligned, settings, output_dir=out, execution=execution)
    weights = f"acoustic {result['acoustic_weight']:g}, word penalty {result['word_penalty']:g}"
    logger.info(labelled("weights", f"{weights} ({result['weights']})"))
    logger.info(labelled("decoded", f"{result['utterances']:,} utterances by {result['stage']}, {result['skipped']}"))
    seconds, speech = result["seconds"], result["speech_seconds"]
    speed = f"{speech / max(seconds, 1e-9):.0f} times real time"
    logger.info(labelled("", f"{seconds:.1f} s for {speech:,.0f} s of speech, {speed}"))
    logger.info(labelled("next", shlex.join(["bochner", "speech", "score", str(corpus), result["directory"]])))


def score(
    corpus: Path,
    hypotheses: Path,
    *,
    protocol: str | None = None,
    out: Path | None = None,
    seed: int = 0,
) -> None:
    """Count the errors of hypotheses as NIST's sclite does; report the rate, its interval, and a table of speakers.

    Examples:

        bochner speech score corpus aligned/decoded/test_sat_order2
        bochner speech score corpus aligned/decoded/test_sat_order2 --protocol per39_sil_ignored
        bochner speech score corpus others.trn --protocol wer_lower_no_punctuation

    The name of the protocol contains the unit, wer (words), cer (characters) or per (phones); the normalisations (nfkc,
    lower, no_punctuation); and for phones the number of classes TIMIT's are folded into (per48, per39) and whether
    silence counts (sil_scored, the stricter rule, or sil_ignored). Rates of different protocols are not comparable. An
    utterance of the part without a hypothesis counts as deleted.

    OUT holds score.json, speakers.txt, errors.txt (reference above hypothesis), confusions.txt, reference.trn and
    hypotheses.trn.

    Args:
        corpus: The corpus directory, with the references.
        hypotheses: The directory of `bochner speech decode`, its hypotheses.jsonl, or a .trn file.
        protocol: Default: wer; cer for Cantonese; per39_sil_scored for TIMIT's phones.
        out: Default: the directory score_PROTOCOL next to the hypotheses.
        seed: Seed of the bootstrap interval.
    """
    from bochner.speech.corpora.corpus_directory import SpeechCorpus
    from bochner.speech.pipeline.scoring import score_files
    from bochner.speech.score import speaker_table

    speech = SpeechCorpus.read(corpus)
    result, part, target = score_files(speech, hypotheses, protocol, output_dir=out, seed=seed)
    by = "speaker" if len(result.by_speaker) > 1 else "utterance"
    low, high, level = result.interval(seed=seed, by=by)
    interval = f"{100 * low:.2f} to {100 * high:.2f}, {level:.0%}, by {by}"
    rate = f"{100 * result.rate:.2f} % ({interval})" if result.counts.tokens else "no rate (all references are empty)"
    print(labelled(result.protocol.name, rate))
    synthetic = " (synthetic speech)" if any(utterance.synthetic for utterance in speech.part(part)) else ""
    print(labelled("errors", f"{result.counts.errors:,} in {result.counts.tokens:,} tokens of {part}{synthetic}"))
    if result.missing:
        print(labelled("missing", f"{len(result.missing)} utterances have no hypothesis and count as deleted"))
    print(f"\n{speaker_table(result)}\n", flush=True)
    print(labelled("listing", str(target / "errors.txt")))
