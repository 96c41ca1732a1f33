"""Scores as text: speaker table, aligned errors, confusions, and NIST's trn format."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bochner.speech.score.error_rates import Counts, Pair, Score, Scored
from bochner.speech.score.protocol import Protocol
from bochner.speech.text_files import FilePath, numbered_lines
from bochner.storage import write_atomically

GAP = "***"
SPECIAL = re.compile(r"[(){}/@;]")  # sclite's syntax of alternatives, optional words and comments
LINE = re.compile(r"(?P<text>.*?)\s*\((?P<name>[^()\s]+)\)\s*")


def speaker_table(score: Score) -> str:
    """A line for each speaker and one for all; rates in percent of the reference tokens.

    >>> from bochner.speech.score import Protocol, score
    >>> result = score({"a": "yes no", "b": "no"}, {"a": "yes", "b": "no no"}, protocol=Protocol(),
    ...                speakers={"a": "ann", "b": "bob"})
    >>> print(speaker_table(result))
    speaker  utterances  tokens  sub  del  ins  errors    wer
    ann               1       2    0    1    0       1  50.00
    bob               1       1    0    0    1       1 100.00
    all               2       3    0    1    1       2  66.67
    """
    heads = ["speaker", "utterances", "tokens", "sub", "del", "ins", "errors", score.protocol.name]
    utterances = Counter(scored.speaker for scored in score.utterances)
    rows = [_row(name, utterances[name], counts) for name, counts in score.by_speaker.items()]
    total = _row("all", len(score.utterances), score.counts)
    return _table([heads, *([] if list(utterances) == ["all"] else rows), total])


def error_listing(score: Score) -> str:
    """Reference above hypothesis for each utterance with errors, which are marked S, D or I.

    >>> from bochner.speech.score import Protocol, score
    >>> print(error_listing(score({"a-1": "yes no yes"}, {"a-1": "yes yes yes oh"}, protocol=Protocol())))
    a-1 (all): 1 substitution, 0 deletions, 1 insertion in 3
    REF: yes no  yes ***
    HYP: yes yes yes oh
             S       I
    """
    return "\n\n".join(_listed(scored) for scored in score.utterances if scored.counts.errors)


def confusion_table(score: Score, *, most: int = 20) -> str:
    """The most frequent errors.

    >>> from bochner.speech.score import Protocol, score
    >>> print(confusion_table(score({"a": "b b b d"}, {"a": "d d d d g"}, protocol=Protocol(unit="phones"))))
    times  reference  hypothesis
        3  b          d
        1  ***        g
    """
    wrong = ((pair, times) for pair, times in score.confusions.items() if pair[0] != pair[1])
    ranked = sorted(wrong, key=lambda entry: (-entry[1], tuple(token or "" for token in entry[0])))[:most]
    lines = [[str(times), *_sides(pair)] for pair, times in ranked]
    return _table([["times", "reference", "hypothesis"], *lines], left=(1, 2))


def _row(name: str, utterances: int, counts: Counts) -> list[str]:
    numbers = (counts.tokens, counts.substitutions, counts.deletions, counts.insertions, counts.errors)
    return [name, str(utterances), *map(str, numbers), f"{100 * counts.rate:.2f}" if counts.tokens else "-"]


def _listed(scored: Scored) -> str:
    columns = [(*_sides(pair), _mark(pair)) for pair in scored.pairs]
    widths = [max(map(_width, column)) for column in columns]
    lines = [
        head + " ".join(_padded(cell, width) for cell, width in zip(cells, widths, strict=True))
        for head, cells in zip(("REF: ", "HYP: ", "     "), zip(*columns, strict=True), strict=True)
    ]
    counts = scored.counts
    parts = ", ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in (
            (counts.substitutions, "substitution"), (counts.deletions, "deletion"), (counts.insertions, "insertion"),
        )
    )  # fmt: skip
    return "\n".join(
        [f"{scored.id} ({scored.speaker}): {parts} in {counts.tokens}", *(line.rstrip() for line in lines)]
    )


def _sides(pair: Pair) -> tuple[str, str]:
    return pair[0] or GAP, pair[1] or GAP


def _mark(pair: Pair) -> str:
    if pair[0] == pair[1]:
        return ""
    return "I" if pair[0] is None else "D" if pair[1] is None else "S"


def _table(rows: Sequence[Sequence[str]], *, left: Iterable[int] = (0,)) -> str:
    """Columns separated by two spaces, right-aligned except those in `left`."""
    flush = set(left)
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (_padded(cell, widths[j], right=j not in flush) for j, cell in enumerate(row))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """The width on a terminal: two for wide letters, zero for marks."""
    marks = ("Mn", "Me", "Cf")
    return sum(
        0 if unicodedata.category(letter) in marks else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space


def write_trn(
    path: FilePath, texts: Mapping[str, str], *, protocol: Protocol, speakers: Mapping[str, str] | None = None
) -> Path:
    """Write {utterance id: text} as tokenised by `protocol`, one line per utterance, atomically; returns the path.

    For sclite the speaker is the part of a name before the first dash, so the speaker is written first, with dots for
    dashes. Compare two files by
    `sctk sclite -s -e utf-8 -r ref.trn trn -h hyp.trn trn -i spu_id -o sum stdout`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     file = write_trn(directory + "/ref.trn", {"sa1": "yes no"}, protocol=Protocol(), speakers={"sa1": "ann"})
    ...     file.read_text(), read_trn(file)
    ('yes no (ann-sa1)\\n', {'ann-sa1': 'yes no'})
    """
    lines, dotted = [], _dotted(speakers or {})
    for name, text in texts.items():
        tokens = protocol.tokens(text)
        if special := sorted({token for token in tokens if SPECIAL.search(token)}):
            raise ValueError(f"the tokens of {name!r} must be without ( ) {{ }} / @ ; for sclite, got {special[:10]}.")
        lines.append(f"{' '.join(tokens)} ({_full_name(name, dotted)})\n")
    write_atomically(Path(path), "".join(lines).encode())
    return Path(path)


def read_trn(path: FilePath) -> dict[str, str]:
    """{name: text} of a trn file, where names are in brackets. Errors name the file and the line."""
    return dict(_read(Path(path)))


def _dotted(speakers: Mapping[str, str]) -> dict[str, str]:
    """{utterance: speaker} with dots for dashes, checked to be unambiguous."""
    dotted = {speaker: speaker.replace("-", ".") for speaker in speakers.values()}
    if len(set(dotted.values())) < len(dotted):
        raise ValueError(f"speakers must differ by more than dashes and dots for sclite, got {sorted(dotted)[:10]}.")
    return {name: dotted[speaker] for name, speaker in speakers.items()}


def _full_name(name: str, speakers: Mapping[str, str]) -> str:
    full = f"{speakers[name] if speakers else 'all'}-{name}"
    if re.search(r"[()\s]", full):
        raise ValueError(f"names of utterances and speakers must be without brackets and spaces, got {full!r}.")
    return full


def _read(path: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        match = LINE.fullmatch(line)
        if match is None or match["name"] in seen:
            fault = "is not `tokens (name)`" if match is None else f"repeats the name {match['name']!r}"
            raise ValueError(f"{path}, line {number}, {fault}: {line[:60]!r}.")
        seen.add(match["name"])
        yield match["name"], " ".join(match["text"].split())
