"""`bochner speech align`: which state of which phone each frame belongs to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from bochner.cli.report import say

Until = Literal["monophone", "triphone", "lda_mllt", "sat"]


def align(
    corpus: Path,
    out: Path,
    *,
    until: Until = "sat",
    frontend: Literal["mfcc", "plp"] = "mfcc",
    start: Literal["equal", "known", "kept"] = "equal",
    num_leaves: int | None = None,
    num_gaussians: int | None = None,
    context: int = 4,
    seed: int = 0,
    workers: int = 1,
) -> None:
    """Train a GMM-HMM on the part train, and align every part with it: labels of frames, times of phones and words.

    Examples:

        bochner speech align corpus aligned
        bochner speech align corpus aligned --until triphone
        bochner speech align corpus aligned --until monophone --start known
        bochner speech align corpus aligned --num_leaves 2000 --num_gaussians 10000 --workers 2

    The stages: monophone, states of phones whatever their neighbours; triphone, states in context, tied by decision
    trees; lda_mllt, on nine frames projected to the directions that part the states; sat, on frames moved towards the
    model by a transform for each speaker. Each is kept: ask for one stage more and only that is trained; stopped, the
    same command goes on after the last whole stage.

    OUT/aligned/STAGE then holds phones.ctm and words.ctm, states/ (the tied state of each frame), rows/PART (frames
    between their neighbours with their states: what `bochner train --task classify` reads) and skipped.jsonl. Where the
    corpus knows the times of its phones, the agreement is said. It needs `pip install 'bochner[speech]'`.

    Args:
        corpus: A corpus directory, see `bochner speech prepare`.
        out: Folder for frames, stages and alignments.
        until: The last stage.
        frontend: Cepstra to make of recordings; a corpus that gives frames keeps them.
        start: Where monophones begin: states that last "equal", or the "known" times of phones in the corpus; "kept"
            keeps to these in all later stages of training, as suits a synthetic corpus, whose times are exact.
        num_leaves: Tied states at most; fewer where no split helps other speakers. Default: 1.6 sqrt(frames of train),
            up to 2000.
        num_gaussians: Of the tied stages. Default: one for 60 frames of train, at most 10,000.
        context: Neighbours on each side of a frame in rows/.
        seed: Of everything random.
        workers: Processes.
    """
    from bochner.cli.speech.lines import say_aligned
    from bochner.speech.pipeline.alignment import AlignSettings, Work, align_corpus

    settings = AlignSettings(
        until=until, frontend=frontend, start=start, num_leaves=num_leaves, num_gaussians=num_gaussians,
        context=context, seed=seed,
    )  # fmt: skip
    work = Work(workers, say, sys.stderr.isatty())
    say_aligned(align_corpus(corpus, out, settings, work=work), corpus, out, until)
