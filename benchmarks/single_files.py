"""Errors of recordings that are transcribed one by one; writes its part of docs/benchmarks_speech.md.

    python -m benchmarks.single_files DATA [--output_dir out/single_files] [--tasks digits sentences]

DATA contains fsdd.zip, timit_nltk_sample.zip and an4_cepstra.zip. The models of the recipe `own` decode each part dev
as `bochner asr run` does, with the speaker of each recording known, and as `bochner transcribe` does, all files
together and each by itself.
Finished stages are kept in the output directory.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
import torch

from benchmarks.boundaries import table
from benchmarks.report import write_section
from bochner.acoustic.decoding import MIN_SPEAKERS
from bochner.acoustic.experiment import ACOUSTIC, Experiment, setup
from bochner.acoustic.model import AcousticModel
from bochner.acoustic.recipe import load_recipe
from bochner.acoustic.transcription import group_by_speaker, transcribe
from bochner.speech.audio import read_audio
from bochner.speech.corpora.an4 import prepare_an4
from bochner.speech.corpora.corpus_directory import PreparedCorpus, SpeechCorpus, relative, write_corpus
from bochner.speech.corpora.digits import prepare_digits
from bochner.speech.corpora.timit import is_noise, prepare_timit
from bochner.speech.frontend.postprocess import average_moments, group_moments, normalize
from bochner.speech.frontend.speaker_clusters import cluster_recordings
from bochner.speech.frontend.speaker_prior import SpeakerPrior
from bochner.speech.pipeline.scoring import score_hypotheses
from bochner.speech.score import Score
from bochner.speech.score.error_rates import compare

COMMAND = "python -m benchmarks.single_files"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_speech.md"
RECORDINGS = 12  # of each digit and speaker
SENTENCE_FOLDS = 4
MODEL = "laplacian"
HEADS = [
    "task", "part", "system", "files", "tokens", "run", "files together", "lost, points (95 % interval)",
    "single files", "lost, points (95 % interval)", "speaker given", "CPU s",
]  # fmt: skip
PROTOCOL = f"""
Errors by speakers that are not in train: "run" with the speaker of each recording known, as `bochner asr run` decodes;
"files together" by `bochner transcribe` of all recordings of dev, heldout and test in one command, which finds those of
the same speaker; "single files" by `bochner transcribe`, each file by itself; and "speaker given" by `bochner
transcribe --speaker same`. "Lost" is the error rate minus that of the run, with an interval by the paired bootstrap
over files, or over speakers if there are at least {MIN_SPEAKERS}. CPU seconds are those of training the classifier of
one fold, besides the alignment. Recipe `own`, one seed. Decoding weights are chosen on dev, which is also scored.
"""
TASKS = {
    "digits": f"""
Digits: words of 0.4 s of the Free Spoken Digit Dataset, {RECORDINGS} recordings of each digit by each speaker. Train
has three speakers. Each of five speakers in turn is dev and the next is heldout; the sixth is test, decoded by the
models of the first fold only.
""",
    "sentences": f"""
Sentences: phones (39, silence scored) of TIMIT's sample without damaged recordings, 3 s each. Train has ten of 16
speakers; each of {SENTENCE_FOLDS} groups of four in turn is dev.
""",
}


@dataclass(frozen=True)
class Fold:
    """A corpus directory, the parts that are scored, and changes of the recipe."""

    corpus: Path
    parts: tuple[str, ...] = ("dev",)
    overrides: Mapping[str, object] | None = None


@dataclass(frozen=True)
class Measured:
    """The scores of one system on a part of one fold or, joined, of all folds."""

    run: Score
    together: Score
    single: Score
    same: Score
    cpu_seconds: float | None


Systems = dict[tuple[str, str], list[Measured]]  # by part and system, one for each fold


def digit_folds(data: Path, directory: Path) -> list[Fold]:
    """Each of five speakers of the digits as dev, the next as heldout; the sixth is test, scored in the first fold."""
    prepared = prepare_digits(data / "fsdd.zip", directory / "digits")
    first = [u for u in prepared.utterances if int(u.id.rpartition("-")[2]) < RECORDINGS]
    prepared = replace(prepared, utterances=first)
    (test,) = {u.speaker for u in first if u.part == "test"}
    others = sorted({u.speaker for u in first} - {test})
    folds = []
    for place, dev in enumerate(others):
        corpus, heldout = directory / f"digits_{dev}", others[(place + 1) % len(others)]
        _write_split(prepared, corpus, {dev: "dev", heldout: "heldout", test: "test"})
        folds.append(Fold(corpus, ("dev", "test") if place == 0 else ("dev",)))
    return folds


def sentence_folds(data: Path, directory: Path) -> list[Fold]:
    """Each quarter of the sample's speakers as dev; of the next quarter, one is heldout and one test."""
    prepared = prepare_timit(data / "timit_nltk_sample.zip", directory / "sentences", fold="61-48")
    kept = [u for u in prepared.utterances if not is_noise(read_audio(u, corpus_dir=prepared.directory))]
    prepared, speakers = replace(prepared, utterances=kept), sorted({u.speaker for u in kept})
    groups = [speakers[place::SENTENCE_FOLDS] for place in range(SENTENCE_FOLDS)]
    folds = []
    for place, group in enumerate(groups):
        after = groups[(place + 1) % SENTENCE_FOLDS]
        corpus = directory / f"sentences_{place}"
        _write_split(prepared, corpus, {**dict.fromkeys(group, "dev"), after[0]: "heldout", after[1]: "test"})
        folds.append(Fold(corpus, overrides={"alignment.start": "known"}))
    return folds


def _write_split(prepared: PreparedCorpus, target: Path, part_of: Mapping[str, str]) -> None:
    """The corpus with the given parts by speaker, train by default."""
    utterances = [
        u.replace(
            part=part_of.get(u.speaker, "train"), audio=relative(prepared.directory / str(u.audio), target)
        )
        for u in prepared.utterances
    ]  # fmt: skip
    write_corpus(target, utterances, lexicon=SpeechCorpus.read(prepared.directory).lexicon)


def measure(fold: Fold, output_dir: Path) -> dict[tuple[str, str], Measured]:
    """The scores of the GMM and the kernel model by part and system."""
    overrides = {"corpus.source": str(fold.corpus), **(fold.overrides or {})}
    experiment = setup(load_recipe("own", overrides=overrides), output_dir, device="cpu")
    (settings,) = (settings for settings in experiment.models if settings.name == MODEL)
    rows = {"GMM": experiment.gmm(), "Laplacian": experiment.train(settings, 0)}
    measured = {}
    for name, row in rows.items():
        model = AcousticModel.load(experiment.root / row.directory / ACOUSTIC)
        together = transcribed_together(model, experiment)
        for part in fold.parts:
            row = experiment.test(row) if part == "test" else row
            single, same = transcribed(model, experiment, part)
            own = {u.id: together[u.id] for u in experiment.aligned.corpus.part(part)}
            joint = score_hypotheses(experiment.aligned.corpus, own, experiment.aligned.protocol)
            measured[part, name] = Measured(experiment.score(row, part), joint, single, same, row.cpu_seconds)
    return measured


def transcribed_together(model: AcousticModel, experiment: Experiment) -> dict[str, str]:
    """The texts of all recordings that are not in train, of speakers that are found."""
    corpus = experiment.aligned.corpus
    names = {
        corpus.directory / str(u.audio): u.id for part in ("dev", "heldout", "test") for u in corpus.part(part)
    }  # fmt: skip
    groups = group_by_speaker(model, list(names))
    return {
        names[path]: transcript.text
        for group in groups
        for path, transcript in zip(group, transcribe(model, group), strict=True)
    }


def transcribed(model: AcousticModel, experiment: Experiment, part: str) -> tuple[Score, Score]:
    """The scores of each file of the part transcribed by itself, and of all files of each speaker together."""
    corpus = experiment.aligned.corpus
    speakers: dict[str, dict[str, Path]] = {}
    for u in corpus.part(part):
        speakers.setdefault(u.speaker, {})[u.id] = corpus.directory / str(u.audio)
    files = {name: path for own in speakers.values() for name, path in own.items()}
    single = {name: model.transcribe(path).text for name, path in files.items()}
    same: dict[str, str] = {}
    for own in speakers.values():
        transcripts = transcribe(model, list(own.values()))
        same |= {name: transcript.text for name, transcript in zip(own, transcripts, strict=True)}
    protocol = experiment.aligned.protocol
    return score_hypotheses(corpus, single, protocol), score_hypotheses(corpus, same, protocol)


def joined(folds: Sequence[Measured]) -> Measured:
    """The scores of all folds, which have different speakers."""
    run, together, single, same = (
        replace(scores[0], utterances=tuple(chain.from_iterable(score.utterances for score in scores)))
        for scores in zip(*((fold.run, fold.together, fold.single, fold.same) for fold in folds), strict=True)
    )
    seconds = [fold.cpu_seconds for fold in folds if fold.cpu_seconds is not None]
    return Measured(run, together, single, same, fmean(seconds) if seconds else None)


def resampled_units(score: Score) -> str:
    """What the bootstrap resamples: speakers if there are at least ten."""
    return "speaker" if len(score.by_speaker) >= MIN_SPEAKERS else "utterance"


def row(task: str, part: str, system: str, result: Measured) -> list[str]:
    seconds = "" if result.cpu_seconds is None else f"{result.cpu_seconds:.0f}"
    return [
        task, part, system, f"{len(result.run.utterances):,}", f"{result.run.counts.tokens:,}",
        str(result.run.counts.errors), *lost(result.run, result.together), *lost(result.run, result.single),
        str(result.same.counts.errors), seconds,
    ]  # fmt: skip


def lost(run: Score, other: Score) -> list[str]:
    """The errors of `other`, and how much its error rate is above that of the run, in points."""
    difference, (low, high, _), _ = compare(run, other, seed=0, by=resampled_units(run))
    points = [f"{100 * value:.1f}" for value in (difference, low, high)]
    return [str(other.counts.errors), f"{points[0]} ({points[1]} to {points[2]})"]


def by_speaker(result: Measured) -> str:
    """Errors in the run, of files together and of single files of each speaker."""
    others = (result.together.by_speaker, result.single.by_speaker)
    return "; ".join(
        f"{name} {run.errors}, {', '.join(str(other[name].errors) for other in others)}"
        for name, run in result.run.by_speaker.items()
    )


def page(tasks: Mapping[str, Systems]) -> str:
    """The protocol, the table of all tasks, and the errors of single speakers."""
    results = {(task, *key): joined(folds) for task, systems in tasks.items() for key, folds in systems.items()}
    lines = [f"Written by `{COMMAND}`; do not edit.", PROTOCOL, *(TASKS[task] for task in tasks), ""]
    lines += table(HEADS, [row(*key, result) for key, result in results.items()])
    for task in tasks:
        errors = by_speaker(results[task, "dev", "Laplacian"])
        lines += [
            "",
            f"{task.capitalize()} of dev by speaker, Laplacian (run, files together, single files): {errors}.",
        ]
    return "\n".join(lines)


def clusters_of_an4(data: Path, directory: Path) -> str:
    """How many speakers of AN4 are found from the cepstra that it distributes."""
    if not directory.exists():
        prepare_an4(data / "an4_cepstra.zip", directory)
    corpus = SpeechCorpus.read(directory)
    frames = {u.id: np.load(directory / str(u.frames)) for u in corpus.utterances}
    train = [u for u in corpus.utterances if u.part == "train"]
    moments = group_moments((u.speaker, frames[u.id]) for u in train)
    normalized = (normalize(frames[u.id], moments[u.speaker]) for u in train)
    prior, parts = SpeakerPrior.fit(average_moments(moments.values()), normalized), []
    for part in ("dev", "heldout", "test"):
        speakers = [u.speaker for u in corpus.part(part)]
        clusters = cluster_recordings(prior, (frames[u.id] for u in corpus.part(part)))
        pure = sum(max(Counter(speakers[k] for k in members).values()) for members in clusters) / len(speakers)
        parts.append(f"{part}, {len(set(speakers))} speakers: {len(clusters)}, {100 * pure:.0f} %")
    return (
        "Clusters of AN4's recordings, which the penalty was not chosen on, and the share of recordings that belong to "
        f"the main speaker of their cluster: {'; '.join(parts)}."
    )


FOLDS = {"digits": digit_folds, "sentences": sentence_folds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--output_dir", type=Path, default=Path("out", "single_files"))
    parser.add_argument("--tasks", nargs="+", choices=[*FOLDS], default=[*FOLDS])
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    tasks: dict[str, Systems] = {}
    for task in arguments.tasks:
        systems = tasks.setdefault(task, {})
        for fold in FOLDS[task](arguments.data, arguments.output_dir / "corpora"):
            for key, measured in measure(fold, arguments.output_dir / fold.corpus.name).items():
                systems.setdefault(key, []).append(measured)
                print(" ".join(row(task, *key, measured)), flush=True)
    clusters = clusters_of_an4(arguments.data, arguments.output_dir / "corpora" / "an4")
    write_section(PAGE, f"{page(tasks)}\n\n{clusters}", command=COMMAND)


if __name__ == "__main__":
    main()
