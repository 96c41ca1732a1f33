"""Scores as text: a table of speakers, the errors aligned, and the tokens most often confused."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from bochner.speech.score.counts import Counts, Pair
from bochner.speech.score.result import Score, Scored

GAP = "***"


def speaker_table(score: Score) -> str:
    """A line for each speaker, and one for all; rates in percent of the reference's tokens.

    >>> from bochner.speech.score import Protocol, score
    >>> found = score({"a": "yes no", "b": "no"}, {"a": "yes", "b": "no no"}, protocol=Protocol(),
    ...               speakers={"a": "ann", "b": "bob"})
    >>> print(speaker_table(found))
    speaker  utterances  tokens  sub  del  ins  errors    wer
    ann               1       2    0    1    0       1  50.00
    bob               1       1    0    0    1       1 100.00
    all               2       3    0    1    1       2  66.67
    """
    heads = ["speaker", "utterances", "tokens", "sub", "del", "ins", "errors", score.protocol.name]
    spoken = Counter(one.speaker for one in score.utterances)
    rows = [_row(name, spoken[name], counts) for name, counts in score.by_speaker.items()]
    total = _row("all", len(score.utterances), score.counts)
    return _table([heads, *([] if list(spoken) == ["all"] else rows), total])


def error_listing(score: Score, *, only_wrong: bool = True) -> str:
    """Reference above hypothesis for each utterance, tokens under each other and errors marked S, D or I.

    >>> from bochner.speech.score import Protocol, score
    >>> print(error_listing(score({"a-1": "yes no yes"}, {"a-1": "yes yes yes oh"}, protocol=Protocol())))
    a-1 (all): 1 substitution, 0 deletions, 1 insertion in 3
    REF: yes no  yes ***
    HYP: yes yes yes oh
             S       I
    """
    shown = (one for one in score.utterances if one.counts.errors or not only_wrong)
    return "\n\n".join(map(_listed, shown))


def confusion_table(score: Score, *, most: int = 20) -> str:
    """The errors that occur most often.

    >>> from bochner.speech.score import Protocol, score
    >>> print(confusion_table(score({"a": "b b b d"}, {"a": "d d d d g"}, protocol=Protocol(unit="phones"))))
    times  reference  hypothesis
        3  b          d
        1  ***        g
    """
    wrong = ((pair, times) for pair, times in score.confusions.items() if pair[0] != pair[1])
    ranked = sorted(wrong, key=lambda found: (-found[1], tuple(token or "" for token in found[0])))[:most]
    lines = [[str(times), *_sides(pair)] for pair, times in ranked]
    return _table([["times", "reference", "hypothesis"], *lines], left=(1, 2))


def _row(name: str, utterances: int, counts: Counts) -> list[str]:
    numbers = (counts.tokens, counts.substitutions, counts.deletions, counts.insertions, counts.errors)
    return [name, str(utterances), *map(str, numbers), f"{100 * counts.rate:.2f}"]


def _listed(one: Scored) -> str:
    columns = [(*_sides(pair), _mark(pair)) for pair in one.pairs]
    widths = [max(map(_width, column)) for column in columns]
    lines = [
        head + " ".join(_padded(cell, width) for cell, width in zip(cells, widths, strict=True))
        for head, cells in zip(("REF: ", "HYP: ", "     "), zip(*columns, strict=True), strict=True)
    ]
    counts = one.counts
    parts = ", ".join(
        f"{number} {word}{'' if number == 1 else 's'}"
        for number, word in (
            (counts.substitutions, "substitution"), (counts.deletions, "deletion"), (counts.insertions, "insertion"),
        )
    )  # fmt: skip
    return "\n".join([f"{one.id} ({one.speaker}): {parts} in {counts.tokens}", *(line.rstrip() for line in lines)])


def _sides(pair: Pair) -> tuple[str, str]:
    return pair[0] or GAP, pair[1] or GAP


def _mark(pair: Pair) -> str:
    if pair[0] == pair[1]:
        return ""
    return "I" if pair[0] is None else "D" if pair[1] is None else "S"


def _table(rows: Sequence[Sequence[str]], *, left: Iterable[int] = (0,)) -> str:
    """Columns two spaces apart, numbers to the right."""
    flush = set(left)
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (_padded(cell, widths[j], right=j not in flush) for j, cell in enumerate(row))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    """Columns on a screen: wide letters take two, marks none."""
    marks = ("Mn", "Me", "Cf")
    return sum(
        0 if unicodedata.category(letter) in marks else 1 + (unicodedata.east_asian_width(letter) in "WF")
        for letter in text
    )


def _padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - _width(text))
    return space + text if right else text + space
