"""Errors of phone and word boundaries on TIMIT's sample; writes its part of docs/benchmarks_speech.md.

    python -m benchmarks.boundaries DATA

DATA contains timit_nltk_sample.zip. The model included in the package is compared with GMMs trained on the sample.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np
import torch

from benchmarks.report import write_section
from bochner.acoustic.settings import KernelSettings
from bochner.acoustic.spliced_frames import SplicedFrames
from bochner.acoustic.training import train_model
from bochner.speech.align import (
    FunctionScores,
    GmmHmm,
    Growth,
    Monophone,
    Recipe,
    Search,
    align_utterances,
    phone_segments,
    train_gmm,
    word_segments,
)
from bochner.speech.align.agreement import matching_labels
from bochner.speech.align.forced import Scores
from bochner.speech.align.recordings import align_samples
from bochner.speech.audio import read_audio, write_audio
from bochner.speech.corpora.timit import is_noise, prepare_timit
from bochner.speech.decode import log_priors, scaled_likelihoods
from bochner.speech.frames import Array
from bochner.speech.frontend.postprocess import group_moments, normalize
from bochner.speech.lexicon import Lexicon, phone_lexicon
from bochner.speech.manifest import Segment, Utterance
from bochner.speech.pretrained import PretrainedModel, load_model
from bochner.speech.pretrained.build import OFFSETS_SOURCE, PHONE_CLASSES

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_speech.md"
LIMITS = (5, 10, 20, 30, 50)  # milliseconds
CLOSURES = {"bcl": ("b",), "dcl": ("d", "jh"), "gcl": ("g",), "kcl": ("k",), "pcl": ("p",), "tcl": ("t", "ch")}
# TIMIT's phones whose names are not those of the CMU dictionary in lower case.
CMU = {
    "ax": "AH", "ax-h": "AH", "axr": "ER", "dx": "T", "el": "L", "em": "M", "en": "N", "eng": "NG", "hv": "HH",
    "ix": "IH", "nx": "N", "ux": "UW", "h#": "SIL", "pau": "SIL", "epi": "SIL", "q": "SIL",
    **{closure: releases[0].upper() for closure, releases in CLOSURES.items()},
}  # fmt: skip
PRIOR_BOUNDARIES = 5
RATE, HOUR = 16_000, 3600
CONTEXT = 4  # frames on each side of that which the kernel model classifies
KERNEL = KernelSettings(kernel="laplacian", num_features=4096, max_epochs=15)
ALIGN_HOUR = """
import sys, time
from benchmarks.memory import peak_bytes
from bochner.cli import main
start = time.perf_counter()
main(["align", sys.argv[1], "--output_dir", sys.argv[2]])
print(time.perf_counter() - start, time.process_time(), peak_bytes())
"""
HEADS = ["model", "given", "sentences", "boundaries", *(f"<= {limit} ms" for limit in LIMITS), "median", "mean"]
PROTOCOL = """
TIMIT's sample without SA sentences, {kept} of {total} recordings: in the others of this copy of the sample a byte is
missing somewhere, after which the samples are loud white noise. They are recognised by 50 ms that are loud and white,
which speech is not, and have their own row. Hand labels are folded to the 39 phones of the CMU dictionary: a closure
and its release are one stop, so that the easy boundary between them does not count, and a glottal stop belongs to the
vowel after it. "Phones": the hand labels' sequence is given and every boundary counts. "Words": the text is given,
phones are the dictionary's, and the boundaries of phones that both have count, matched by the least number of edits.
The error is that of the beginning of a phone (not the first), or of the beginning and end of a word. The model "en"
comes with the package. Its boundaries are medians of posterior distributions by frames every 5 ms, given how fast the
spectrum changes, less an offset. A transform of cepstra for each speaker or recording (fMLLR, of full and diagonal
matrices or an offset alone) did not help and is not used.

**Which rows are out of sample.** {offsets} The rows "4 speakers" are of these; "en, 4 speakers" is the model as it is.
In the rows "offsets of the other {others} speakers", the offsets of a speaker are estimated on all others, so that they
are out of sample for each of the {speakers}. The rate of frames, the scale of the likelihoods, the measure of spectral
change, its exponent and the phones between which it does not count (vowels and liquids) were chosen on the 12 speakers:
as to these, only the rows "4 speakers" are out of sample. The model was chosen on all these recordings among models of
PocketSphinx, of an hour of synthetic speech (73 % of the boundaries within 20 ms) and of AN4 (68 %), and so were its
beam and the normalisation of its cepstra: as to these, no row of "en" is out of sample, and all may be slightly
optimistic. Sphinx does not list the recordings that it was trained on, so that TIMIT may be among them.

GMMs are monophones of 13 MFCCs, trained on 12 speakers and tested on 4. The kernel model (Laplacian, {features:,}
features, {context} frames on each side, one seed) classifies the states that this GMM assigns to the frames of 10 of
the 12 speakers; the other two are its heldout part. Its posteriors over priors take the place of the GMM's likelihoods
in the same alignment.
"""
OFFSETS = """
The average errors (ms, aligned minus hand-labelled) of 12 speakers that the model subtracts, by the class of the phone
before the boundary (rows) and after it:
"""


def folded(phones: Sequence[Segment]) -> tuple[Segment, ...]:
    """Hand-labelled phones as phones of the CMU dictionary.

    >>> [phone.label for phone in folded([Segment("q", 0, 1), Segment("aa", 1, 2), Segment("tcl", 2, 3)])]
    ['AA', 'T']
    """
    merged: list[Segment] = []
    before = Segment("", 0.0, 0.0)
    for phone in phones:
        label = CMU.get(phone.label, phone.label.upper())
        released = phone.label in CLOSURES.get(before.label, ())
        voiced = before.label == "q" and label != "SIL"
        if merged and (released or voiced):
            merged[-1] = Segment(label, merged[-1].start, phone.end)
        elif merged and label == merged[-1].label == "SIL" and phone.label != "q":
            merged[-1] = merged[-1]._replace(end=phone.end)
        else:
            merged.append(Segment(label, phone.start, phone.end))
        before = phone
    return tuple(merged)


def boundary_errors(pairs: Iterable[tuple[Sequence[Segment], Sequence[Segment]]]) -> Array:
    """Aligned minus reference start of each phone that both have, except the first, in milliseconds."""
    return 1000 * np.array(
        [
            aligned[j].start - reference[i].start
            for reference, aligned in pairs
            for i, j in matching_labels([s.label for s in reference], [s.label for s in aligned])
            if i > 0
        ]
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (heads, ["---"] * len(heads), *rows)]


def row(model: str, given: str, sentences: int, errors: Array) -> list[str]:
    sizes = np.abs(errors)
    shares = [f"{100 * np.mean(sizes <= limit + 1e-3):.1f} %" for limit in LIMITS]
    return [model, given, str(sentences), f"{len(sizes):,}", *shares, f"{np.median(sizes):.1f}", f"{sizes.mean():.1f}"]


def by_phones(utterances: Iterable[Utterance], references: Mapping[str, tuple[Segment, ...]]) -> list[Utterance]:
    """The utterances with their hand-labelled phones as text."""
    return [
        u.replace(text=" ".join(s.label for s in references[u.id]), words=(), phones=references[u.id])
        for u in utterances
    ]


@dataclass(frozen=True)
class Sample:
    """The utterances of the sample with their samples and folded phones."""

    utterances: list[Utterance]
    audio: Mapping[str, Array]
    references: Mapping[str, tuple[Segment, ...]]

    def of(self, *, speakers: Iterable[str]) -> Sample:
        chosen = frozenset(speakers)
        return replace(self, utterances=[u for u in self.utterances if u.speaker in chosen])

    @property
    def speakers(self) -> list[str]:
        return sorted({u.speaker for u in self.utterances})


Aligned = dict[str, tuple[Segment, ...]]


def aligned_phones(model: PretrainedModel, sample: Sample) -> Aligned:
    """Segments by utterance if the phones are given."""
    lexicon = phone_lexicon(model.hmm.phones)
    return {
        u.id: align_samples([sample.audio[u.id]], u.tokens, lexicon, model)[0]
        for u in by_phones(sample.utterances, sample.references)
    }


def word_lexicon(model: PretrainedModel, sample: Sample) -> Lexicon:
    return Lexicon({word: model.pronunciations[word] for u in sample.utterances for word in u.tokens})


def aligned_words(model: PretrainedModel, sample: Sample) -> Aligned:
    """Segments by utterance if the words are given."""
    lexicon = word_lexicon(model, sample)
    return {u.id: align_samples([sample.audio[u.id]], u.tokens, lexicon, model)[0] for u in sample.utterances}


def shipped_rows(name: str, model: PretrainedModel, sample: Sample, phones: Aligned, words: Aligned) -> list[list[str]]:
    number, lexicon = len(sample.utterances), word_lexicon(model, sample)
    rows = [
        row(name, given, number, boundary_errors((sample.references[u.id], found[u.id]) for u in sample.utterances))
        for given, found in (("phones", phones), ("words", words))
    ]
    spans = ((u.words, word_segments(words[u.id], u.tokens, lexicon, silence=["SIL"])) for u in sample.utterances)
    edges = [1000 * (b - a) for known, found in spans for r, f in zip(known, found, strict=True)
             for a, b in ((r.start, f.start), (r.end, f.end))]  # fmt: skip
    return [*rows, row(name, "words; edges of words", number, np.array(edges))]


def with_offsets(model: PretrainedModel, milliseconds: list[list[float]] | None) -> PretrainedModel:
    stored = None if milliseconds is None else {"classes": PHONE_CLASSES, "milliseconds": milliseconds}
    return replace(model, about={**model.about, "boundary_offsets": stored})


def boundary_offsets(sample: Sample, aligned: Aligned) -> list[list[float]]:
    """Aligned minus reference beginning of phones in ms, by the classes of the phone before (rows) and of the phone.

    The median, shrunk towards 0 by the weight of five boundaries without error.
    """
    classes = list(PHONE_CLASSES)
    class_of = {phone: classes.index(name) for name, phones in PHONE_CLASSES.items() for phone in phones}
    errors: dict[tuple[int, int], list[float]] = {}
    for u in sample.utterances:
        reference, found = sample.references[u.id], aligned[u.id]
        for i, j in matching_labels([s.label for s in reference], [s.label for s in found]):
            if i > 0:
                pair = (class_of[reference[i - 1].label], class_of[reference[i].label])
                errors.setdefault(pair, []).append(1000 * (found[j].start - reference[i].start))
    table = np.zeros((len(classes), len(classes)))
    for pair, values in errors.items():
        table[pair] = np.median(values) * len(values) / (len(values) + PRIOR_BOUNDARIES)
    return [[round(value, 1) + 0.0 for value in line] for line in table.tolist()]


def offsets_of_others(model: PretrainedModel, sample: Sample, plain: Aligned) -> tuple[Aligned, Aligned]:
    """Phones and words of each speaker, aligned with offsets that the other speakers give."""
    phones, words = {}, {}
    for speaker in sample.speakers:
        others = sample.of(speakers=set(sample.speakers) - {speaker})
        adjusted, own = with_offsets(model, boundary_offsets(others, plain)), sample.of(speakers=[speaker])
        phones |= aligned_phones(adjusted, own)
        words |= aligned_words(adjusted, own)
    return phones, words


def trained_rows(
    start: str, frames: Mapping[str, Array], offset: float, utterances: list[Utterance], *, kernel: bool = False
) -> list[list[str]]:
    """The row of a GMM trained on the sample and, with `kernel`, that of a kernel model of the GMM's states."""
    references = {u.id: folded(u.phones) for u in utterances}
    chosen = by_phones(utterances, references)
    lexicon = phone_lexicon(sorted({s.label for phones in references.values() for s in phones}))
    growth = Growth(num_gaussians=500, iterations=10, grow_until=8, realign=())
    if start == "equal":
        growth = replace(Monophone().growth, num_gaussians=500)
    recipe = Recipe(monophone=Monophone(start=start, growth=growth), offset=offset, silence=("SIL",))
    train, test = ([u for u in chosen if u.part == part] for part in ("train", "test"))
    with tempfile.TemporaryDirectory() as directory:
        model = train_gmm(directory, lexicon, train, frames, recipe=recipe, until="monophone")
    systems: dict[str, Scores] = {f"GMM of the sample, {start} start": model.scores(frames, {})}
    if kernel:
        systems[f"kernel model of that GMM's states, {start} start"] = kernel_scores(model, frames, train)
    rows = []
    for name, scores in systems.items():
        paths = align_utterances(model.hmm, lexicon, test, scores, search=Search(beam=30.0)).paths
        found = {name: phone_segments(model.hmm, path, offset=offset) for name, path in paths.items()}
        errors = boundary_errors((references[name], found[name]) for name in found)
        rows.append(row(name, "phones", len(found), errors))
    return rows


def kernel_scores(gmm: GmmHmm, frames: Mapping[str, Array], train: list[Utterance]) -> Scores:
    """Log posteriors minus log priors by a kernel model of the aligned frames; two speakers are its heldout part."""
    viewed, labels = gmm.viewed(frames, {}), gmm.labels
    speakers = sorted({u.speaker for u in train})
    parts = [[u.id for u in train if (u.speaker in speakers[-2:]) == held and u.id in labels] for held in (False, True)]
    rows = SplicedFrames.fit(viewed, labels, ids=parts[0], left=CONTEXT, right=CONTEXT)
    heldout = SplicedFrames(rows.splicer, viewed, labels, parts[1])
    module = train_model(KERNEL, rows, heldout, num_states=gmm.hmm.num_pdfs, seed=0).module
    priors = log_priors(rows.states.numpy(), num_pdfs=gmm.hmm.num_pdfs)

    def scores(name: str) -> Array:
        with torch.no_grad():
            logits = module(rows.splicer(torch.from_numpy(np.array(viewed[name], dtype=np.float32))))
        return scaled_likelihoods(logits.log_softmax(dim=1).numpy(), priors)

    return FunctionScores(scores)


def hour_of_audio(sample: Sample) -> str:
    """A sentence with the cost of `bochner align` for an hour of the sample's sentences, in one file."""
    samples: list[Array] = []
    words: list[str] = []
    pause, total = np.zeros(RATE // 2, np.float32), 0
    for u in cycle(sample.utterances):
        if total >= HOUR * RATE:
            break
        samples += [sample.audio[u.id], pause]
        words += u.tokens
        total += len(samples[-2]) + len(pause)
    with tempfile.TemporaryDirectory() as directory:
        audio = Path(directory, "hour.wav")
        write_audio(audio, np.concatenate(samples), rate=RATE)
        audio.with_suffix(".txt").write_text(" ".join(words))
        command = [sys.executable, "-c", ALIGN_HOUR, str(audio), str(Path(directory, "out"))]
        used = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1].split()
    seconds, cpu_seconds, peak = map(float, used)
    cost = f"{seconds:.0f} s, {cpu_seconds:.0f} CPU seconds and {peak / 1e9:.2f} GB"
    return f"An hour of these sentences in one file takes `bochner align` {cost}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    archive = parser.parse_args().data / "timit_nltk_sample.zip"
    with tempfile.TemporaryDirectory() as directory:
        corpus = prepare_timit(archive, directory, tokens="words").utterances
        audio = {u.id: read_audio(u, corpus_dir=directory) for u in corpus}
    references = {u.id: folded(u.phones) for u in corpus}
    damaged = {u.id: is_noise(audio[u.id]) for u in corpus}
    utterances = [u for u in corpus if not damaged[u.id]]
    sample, model = Sample(utterances, audio, references), load_model("en")
    train, test = (
        sample.of(speakers={u.speaker for u in utterances if u.part == part}) for part in ("train", "test")
    )  # fmt: skip
    without = with_offsets(model, None)
    plain = aligned_phones(without, sample)
    milliseconds = boundary_offsets(train, plain)
    rows = shipped_rows("en without offsets", without, sample, plain, aligned_words(without, sample))
    rows += shipped_rows(
        f"en, offsets of the other {len(sample.speakers) - 1} speakers", model, sample,
        *offsets_of_others(model, sample, plain),
    )  # fmt: skip
    for name, other in (("en without offsets", without), ("en", model)):
        rows += shipped_rows(
            f"{name}, {len(test.speakers)} speakers",
            other,
            test,
            aligned_phones(other, test),
            aligned_words(other, test),
        )
    noisy = replace(sample, utterances=[u for u in corpus if damaged[u.id]])
    errors = boundary_errors((references[name], found) for name, found in aligned_phones(model, noisy).items())
    rows.append(row("en, damaged recordings", "phones", len(noisy.utterances), errors))
    cepstra = {u.id: model.frontend(audio[u.id]) for u in utterances}
    moments = group_moments((u.speaker, cepstra[u.id]) for u in utterances)
    frames = {u.id: normalize(cepstra[u.id], moments[u.speaker]) for u in utterances}
    rows += trained_rows("equal", frames, model.offset, utterances)
    rows += trained_rows("known", frames, model.offset, utterances, kernel=True)
    protocol = PROTOCOL.format(
        kept=len(utterances), total=len(corpus), others=len(sample.speakers) - 1,
        speakers=len(sample.speakers), features=KERNEL.num_features, context=CONTEXT, offsets=OFFSETS_SOURCE,
    ).strip()  # fmt: skip
    lines = ["# Boundaries of phones and words", "", "Written by `python -m benchmarks.boundaries`; do not edit.", ""]
    lines += [protocol, "", *table(HEADS, rows), "", OFFSETS.strip(), ""]
    cells = zip(PHONE_CLASSES, milliseconds, strict=True)
    lines += table(["before, after", *PHONE_CLASSES], [[name, *map(str, line)] for name, line in cells])
    lines += ["", hour_of_audio(sample)]
    write_section(PAGE, "\n".join(lines) + "\n", command="python -m benchmarks.boundaries")


if __name__ == "__main__":
    main()
