"""Frame labels, phone and word segments of aligned utterances, and CTM files."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bochner.speech.frames import Array
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.model import Hmm
from bochner.speech.lexicon import Lexicon, Pronunciation
from bochner.speech.manifest import Segment
from bochner.speech.text_files import FilePath, numbered_lines
from bochner.storage import write_atomically


def tied_states(hmm: Hmm, transition_ids: Array) -> Array:
    """The pdf of each frame, int32 [T]: the labels of a hybrid model."""
    return hmm.table.pdf[transition_ids]


def phone_states(hmm: Hmm, transition_ids: Array) -> Array:
    """The context-independent state of each frame, int32 [T]: 0..146 for 49 phones of 3 states."""
    first = np.cumsum(hmm.states_of) - hmm.states_of
    return (first[hmm.table.phone] + hmm.table.state)[transition_ids].astype(np.int32)


def phone_segments(
    hmm: Hmm, transition_ids: Array, *, frame_shift: float = 0.01, offset: float = 0.0
) -> tuple[Segment, ...]:
    """Phones with their times in seconds. Frame t covers offset + frame_shift [t, t + 1).

    A frame describes the middle of its window: for windows of 25 ms every 10 ms that begin with the utterance, `offset`
    is 0.0075; if the first window is centred on the first 10 ms it is 0. The first phone always begins at 0.
    """
    starts = phone_starts(hmm, transition_ids)
    names = [hmm.phones[phone - 1] for phone in hmm.table.phone[np.asarray(transition_ids)[starts]]]
    times = offset + frame_shift * np.append(starts, len(transition_ids))
    times[0] = 0.0
    ends = times.round(6).tolist()
    return tuple(Segment(*row) for row in zip(names, ends[:-1], ends[1:], strict=True))


def word_segments(
    phones: Sequence[Segment], tokens: Sequence[str], lexicon: Lexicon, *, silence: Sequence[str]
) -> tuple[Segment, ...]:
    """The words of a transcript with their times, from its aligned phones; `silence` may occur between words."""
    spans = _match(phones, tokens, lexicon, frozenset(silence))
    return tuple(
        Segment(token, phones[start].start, phones[stop - 1].end)
        for token, (start, stop) in zip(tokens, spans, strict=True)
    )


def count_pronunciations(
    phones: Iterable[Sequence[Segment]], texts: Iterable[Sequence[str]], lexicon: Lexicon, *, silence: Sequence[str]
) -> Counter[tuple[str, Pronunciation]]:
    """How often each (word, pronunciation) occurs in the aligned phones of utterances with these words."""
    counts: Counter[tuple[str, Pronunciation]] = Counter()
    for segments, tokens in zip(phones, texts, strict=True):
        for token, (start, stop) in zip(tokens, _match(segments, tokens, lexicon, frozenset(silence)), strict=True):
            counts[token, tuple(segment.label for segment in segments[start:stop])] += 1
    return counts


def _match(
    phones: Sequence[Segment], tokens: Sequence[str], lexicon: Lexicon, silence: frozenset[str]
) -> list[tuple[int, int]]:
    """The phones [start, stop) of each token: breadth-first over positions, with one list of spans for each."""
    labels = [phone.label for phone in phones]
    paths: dict[int, list[tuple[int, int]]] = {0: []}
    for token in tokens:
        longer: dict[int, list[tuple[int, int]]] = {}
        for place, spans in _with_skips(paths, labels, silence).items():
            for pronunciation in lexicon[token]:
                stop = place + len(pronunciation)
                if labels[place:stop] == list(pronunciation):
                    longer.setdefault(stop, [*spans, (place, stop)])
        paths = longer
    ends = _with_skips(paths, labels, silence)
    if len(phones) not in ends:
        raise ValueError(f"the phones {labels} do not spell {' '.join(tokens)!r}.")
    return ends[len(phones)]


def _with_skips(
    paths: dict[int, list[tuple[int, int]]], labels: Sequence[str], silence: frozenset[str]
) -> dict[int, list[tuple[int, int]]]:
    """The same paths, also after a silence."""
    return {
        place + 1: spans for place, spans in paths.items() if labels[place : place + 1] and labels[place] in silence
    } | paths


def write_ctm(path: FilePath, segments: Iterable[tuple[str, Sequence[tuple[Any, ...]]]]) -> None:
    """Write (utterance id, segments) pairs atomically; a fourth entry of a segment, its confidence, is the last column.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     write_ctm(directory + "/words.ctm", [("ann-1", [Segment("yes", 0.25, 0.5)])])
    ...     print(Path(directory, "words.ctm").read_text())
    ...     read_ctm(directory + "/words.ctm")
    ann-1 1 0.250 0.250 yes
    <BLANKLINE>
    {'ann-1': (Segment(label='yes', start=0.25, end=0.5),)}
    """
    lines = [
        f"{name} 1 {start:.3f} {end - start:.3f} {' '.join(map(str, (label, *confidence)))}\n"
        for name, row in segments
        for label, start, end, *confidence in row
    ]
    write_atomically(Path(path), "".join(lines).encode())


def read_ctm(path: FilePath) -> dict[str, tuple[Segment, ...]]:
    """Segments by utterance id; a broken line is an error that names the file and line."""
    segments_of: dict[str, list[Segment]] = {}
    for number, line in numbered_lines(path):
        try:
            name, _, start, duration, label = line.split()[:5]
            segment = Segment(label, float(start), round(float(start) + float(duration), 6))
            if not 0 <= segment.start <= segment.end < math.inf:
                raise ValueError("no time")
        except ValueError as error:
            raise ValueError(
                f"{path}, line {number}: a CTM line is `utterance channel start duration label`, got {line!r}."
            ) from error
        segments_of.setdefault(name, []).append(segment)
    return {name: tuple(row) for name, row in segments_of.items()}
