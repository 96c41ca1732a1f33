"""`bochner speech decode`: what was said, by the trained stage, a lexicon and a language model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from bochner.cli.report import say
from bochner.cli.speech.align import Until


def decode(
    corpus: Path,
    aligned: Path,
    *,
    part: Literal["heldout", "dev", "test"] = "test",
    stage: Until | None = None,
    order: int = 2,
    acoustic_weight: float | None = None,
    word_penalty: float | None = None,
    beam: float = 11.0,
    max_active: int = 2500,
    out: Path | None = None,
    workers: int = 1,
) -> None:
    """Recognise a part of the corpus with the GMM that `bochner speech align` trained.

    Examples:

        bochner speech decode corpus aligned
        bochner speech decode corpus aligned --part dev --order 3
        bochner speech decode corpus aligned --stage monophone --out aligned/mono
        bochner speech decode corpus aligned --acoustic_weight 0.1 --word_penalty 0

    The language model is an n-gram of the texts of train (modified Kneser-Ney) over the words of the lexicon. Lexicon,
    language model and states become one graph, kept in ALIGNED/graphs. The weight of the acoustics and the penalty of
    a word are those of least error on the part dev, whatever part is decoded; where there is no dev, 0.1 and 0. After
    SAT each speaker is adapted to by what the stage before recognised.

    OUT then holds hypotheses.jsonl, hypotheses.trn (for sclite), language_model.arpa, tuning.json and skipped.jsonl.
    Stopped, the same command goes on where it was.

    Args:
        corpus: The corpus directory.
        aligned: The folder of `bochner speech align`.
        part: What to recognise; test only once all choices are made.
        stage: Which of the trained stages. Default: the last.
        order: Words that the language model sees at once, 2 for a bigram.
        acoustic_weight: Against the language model. Default: tuned on dev.
        word_penalty: Cost of every word, above 0 for fewer. Default: tuned on dev.
        beam: Paths that fall this far behind the best are given up.
        max_active: Paths kept at each frame.
        out: Default: ALIGNED/decoded/PART_STAGE_ORDER.
        workers: Processes.
    """
    from bochner.cli.speech.lines import say_decoded
    from bochner.speech.pipeline.alignment import Work
    from bochner.speech.pipeline.decoding import DecodeSettings, decode_corpus

    settings = DecodeSettings(
        part=part, stage=stage, order=order, acoustic_weight=acoustic_weight, word_penalty=word_penalty, beam=beam,
        max_active=max_active,
    )  # fmt: skip
    work = Work(workers, say, sys.stderr.isatty())
    say_decoded(decode_corpus(corpus, aligned, settings, out=out, work=work), corpus)
