"""The speech pipeline on public corpora: error rates, alignment and speed; writes a part of docs/benchmarks_speech.md.

    python -m benchmarks.speech DATA WORK [timit an4 synthetic ...]

DATA contains timit_nltk_sample.zip and an4_cepstra.zip; WORK is a directory for corpora and models, which may be
deleted. Without names all are run. Finished steps in WORK are not run again; their times are those of the first run.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.report import write_section
from bochner.cli.speech.commands import align, decode, prepare, synthesize
from bochner.speech.align import Agreement
from bochner.speech.corpora.corpus_directory import SpeechCorpus
from bochner.speech.pipeline.scoring import score_files
from bochner.speech.score import Score
from bochner.stages import read_record

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_speech.md"
HOURS = 2.0  # of synthetic English


@dataclass
class Table:
    """One section of the page."""

    title: str
    protocol: str
    heads: list[str]
    rows: list[list[str]] = field(default_factory=list)
    steps: list[list[Any]] = field(default_factory=list)  # name, wall seconds, processor seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), processor_seconds()
        yield
        self.steps.append([name, time.perf_counter() - wall, processor_seconds() - cpu])


def processor_seconds() -> float:
    """CPU seconds of this process and its children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(use.ru_utime + use.ru_stime for use in map(resource.getrusage, kinds))


# -- measurements --------------------------------------------------------------------------------------------------


def timit(data: Path, work: Path) -> Table:
    """Phone error rates and boundaries of the sample of 16 speakers."""
    table = Table(
        "TIMIT sample: 12 speakers train (96 sentences, 5 minutes), 4 test (32 sentences)",
        "48 phones (the glottal stop left out) and no SA sentences. 13 MFCCs normalised by speaker. Phone bigram of "
        "train. As many Gaussians in every stage. How trees grow was chosen by four-fold cross-validation over the 12 "
        "training speakers, acoustic weight and phone penalty on 3 of them with a model of the "
        "other 9; test was decoded once for each row, after earlier defaults had been tried on it "
        "too. per39_sil_scored, intervals of 95 % by the bootstrap over the 4 "
        'speakers. "Known": monophones begin from the hand labels of train; "equal": from nothing. Boundaries: share '
        "of the phones of test (not the first of a sentence) that forced alignment begins within 20 ms of the hand "
        "label.",
        ["start", "stage", "states", "per39_sil_scored", "boundaries within 20 ms", "target", "met"],
    )
    archive = data / "timit_nltk_sample.zip"
    for name, sizes in (("timit12", {"train": 12, "test": 4}), ("timit9", {"train": 9, "dev": 3, "test": 4})):
        with table.timed(f"prepare {name}"):
            prepare("timit", archive, work / name, sizes=dict(sizes))
    for start, stages in (
        ("known", ("monophone", "triphone", "lda_mllt", "sat")),
        ("equal", ("monophone", "triphone")),
    ):
        table.rows += [_timit_row(table, work, start, stage) for stage in stages]
    return table


def _timit_row(table: Table, work: Path, start: Any, stage: Any) -> list[str]:
    whole, nine = work / f"timit12-{start}", work / f"timit9-{start}"
    for corpus, folder in (("timit12", whole), ("timit9", nine)):
        with table.timed(f"align {folder.name}, {stage}"):
            align(work / corpus, folder, until=stage, start=start)
    decode(work / "timit9", nine, part="dev", stage=stage)
    weights = _result(nine / "decoded" / f"dev_{stage}_order2" / "decode.json")
    chosen = {name: weights[name] for name in ("acoustic_weight", "word_penalty")}
    with table.timed(f"decode test, {start}, {stage}"):
        decode(work / "timit12", whole, part="test", stage=stage, **chosen)
    result = _result(whole / "aligned" / stage / "align.json")
    near = Agreement(**result["agreement"]["test"]).boundaries_within
    rate = _rate(work / "timit12", whole / "decoded" / f"test_{stage}_order2")
    return [start, stage, str(result["states"]), rate, _percent(near), ">= 75 %", _met(near >= 0.75)]


def an4(data: Path, work: Path) -> Table:
    """Word error rates of CMU's cepstra."""
    table = Table(
        "AN4: CMU's 13 cepstra, 844 of its 948 training utterances, its 130 test utterances",
        "Of the 74 training speakers 4 are heldout and 4 dev, on which acoustic weight and word penalty were chosen; "
        "test was decoded once for each row, after the default beam of the decoder had been tried on it. "
        "AN4's own dictionary. Trigram (modified Kneser-Ney) of the texts of "
        "train. wer, intervals of 95 % by the bootstrap over the 10 speakers of test. The target is for the stage "
        "triphone.",
        ["stage", "states", "wer on test", "wer on dev", "speed of decoding test", "target", "met"],
    )
    corpus, folder = work / "an4", work / "an4-aligned"
    with table.timed("prepare"):
        prepare("an4", data / "an4_cepstra.zip", corpus)
    for stage in ("monophone", "triphone", "lda_mllt", "sat"):
        with table.timed(f"align, {stage}"):
            align(corpus, folder, until=stage)
        with table.timed(f"decode test, {stage} (dev with 21 settings first)"):
            decode(corpus, folder, part="test", stage=stage, order=3)
        target = folder / "decoded" / f"test_{stage}_order3"
        result, scored = (
            _result(target / "decode.json"),
            _score(corpus, target),
        )
        aim = ("<= 15 %", _met(scored.rate <= 0.15)) if stage == "triphone" else ("", "")
        states = _result(folder / "aligned" / stage / "align.json")["states"]
        tuned = min(error for *_, error in json.loads((target / "tuning.json").read_bytes())["errors"])
        table.rows.append([stage, str(states), _rate(corpus, target), _percent(tuned), _speed(result), *aim])
    return table


SYNTHETIC_ROWS = (("kept", "monophone"), ("kept", "sat"), ("equal", "sat"))


def synthetic(data: Path, work: Path) -> Table:
    """Alignment compared with the engine's own times, and the speed of the whole pipeline."""
    table = Table(
        f"Synthetic English, {HOURS:g} hours (`bochner speech synthesize --hours {HOURS:g} --seed 0`)",
        "Synthetic speech of espeak-ng's voices in rooms, noise and telephones: the figures say nothing about people. "
        "Frames: share of frames of forced alignment in the phone of the engine's times, in train "
        'and in the three other parts, whose voices were not trained on. "Kept": every stage is trained on those times '
        'in train, so the target is asked of the other parts; "equal": a flat start, the target is asked of train. '
        "Bigram of train, weights chosen on dev. Decoding: seconds of test decoded in a second of the processor.",
        ["start", "stage", "states", "right in train", "right elsewhere", "target", "met", "wer on test", "decoding"],
    )
    with table.timed("synthesize"):
        synthesize(work / "synthetic", hours=HOURS, seed=0)
    for start, stage in SYNTHETIC_ROWS:
        where = (work / "synthetic", work / f"synthetic-{start}", start, stage)
        table.rows.append([*_aligned_row(table, *where), *_decoded(table, *where)])
    return table


def _aligned_row(table: Table, corpus: Path, folder: Path, start: Any, stage: Any) -> list[str]:
    with table.timed(f"align, {start}, {stage}"):
        align(corpus, folder, until=stage, start=start)
    result = _result(folder / "aligned" / stage / "align.json")
    parts = {part: Agreement(**counts) for part, counts in result["agreement"].items()}
    others = sum((one for part, one in parts.items() if part != "train"), Agreement()).frames_right
    right = parts["train"].frames_right
    asked = right if start == "equal" else others
    return [start, stage, str(result["states"]), _percent(right), _percent(others), ">= 85 %", _met(asked >= 0.85)]


def _decoded(table: Table, corpus: Path, folder: Path, start: Any, stage: Any) -> list[str]:
    with table.timed(f"decode test, {start}, {stage} (dev with 21 settings first)"):
        decode(corpus, folder, part="test", stage=stage)
    target = folder / "decoded" / f"test_{stage}_order2"
    result = _result(target / "decode.json")
    chosen = {name: result[name] for name in ("acoustic_weight", "word_penalty")}
    with TemporaryDirectory(dir=folder) as fresh:  # a finished decoding would not be run again
        before = processor_seconds()
        decode(corpus, folder, part="test", stage=stage, out=Path(fresh, "again"), **chosen)
        seconds = processor_seconds() - before
    return [_rate(corpus, target), f"{result['speech_seconds'] / seconds:.0f} x real time"]


def _rate(corpus: Path, target: Path) -> str:
    result = _score(corpus, target)
    low, high, _ = result.interval(seed=0, by="speaker" if len(result.by_speaker) > 1 else "utterance")
    return f"{100 * result.rate:.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def _score(corpus: Path, hypotheses: Path) -> Score:
    return score_files(SpeechCorpus.read(corpus), hypotheses, None, output_dir=None, seed=0)[0]


def _result(record: Path) -> dict[str, Any]:
    result: dict[str, Any] = read_record(record)["result"]
    return result


def _speed(result: dict[str, Any]) -> str:
    return f"{result['speech_seconds'] / result['seconds']:.0f} x real time"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _met(is_met: bool) -> str:
    return "yes" if is_met else "no"


# -- the page ------------------------------------------------------------------------------------------------------

TABLES: dict[str, Callable[[Path, Path], Table]] = {"timit": timit, "an4": an4, "synthetic": synthetic}


def page(tables: Sequence[Table]) -> str:
    machine = f"{platform.system()}, Python {platform.python_version()}, one process with one thread for each step"
    lines = [
        "# Speech pipeline",
        "",
        "Written by `python -m benchmarks.speech`; do not edit.",
        "",
        f"**Machine.** {machine}, on two shared cores: processor seconds are more reliable than wall time.",
        "Everything ran once, by the functions of [the commands](speech.md) with their defaults.",
    ]
    for table in tables:
        lines += ["", f"## {table.title}", "", f"**Protocol.** {table.protocol}", ""]
        lines += [_line(table.heads), _line(["---"] * len(table.heads)), *map(_line, table.rows), ""]
        lines += [_line(["step", "seconds", "of the processor"]), _line(["---", "---:", "---:"])]
        lines += [_line([name, f"{wall:.0f}", f"{cpu:.0f}"]) for name, wall, cpu in table.steps]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("names", nargs="*", choices=[*TABLES, []])
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or TABLES:
        table, file = TABLES[name](arguments.data, arguments.work), arguments.work / f"{name}.json"
        earlier = {step[0]: step for step in json.loads(file.read_text())["steps"]} if file.exists() else {}
        table.steps = [earlier.get(step[0], step) for step in table.steps]  # finished steps are not timed again
        file.write_text(json.dumps(asdict(table), indent=1))
    stored = [arguments.work / f"{name}.json" for name in TABLES]
    tables = [Table(**json.loads(file.read_text())) for file in stored if file.exists()]
    write_section(PAGE, page(tables), command="python -m benchmarks.speech")


if __name__ == "__main__":
    main()
