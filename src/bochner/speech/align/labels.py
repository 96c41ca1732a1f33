"""Models and alignments that Kaldi made: final.mdl, tree, phones.txt and ali.*.gz."""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.speech.files import numbered_lines
from bochner.speech.frontend.archives import read_integer_vectors
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.model import BINARY, Cursor, Hmm, make_hmm, tree_from_bytes
from bochner.speech.lexicon import Lexicon
from bochner.speech.manifest import Segment
from bochner.storage import write_atomically

Array = NDArray[Any]


def tied_states(hmm: Hmm, transition_ids: Array) -> Array:
    """The pdf of each frame, int32 [T]: the labels of a hybrid model."""
    return hmm.table.pdf[transition_ids]


def phone_states(hmm: Hmm, transition_ids: Array) -> Array:
    """The state of the phone of each frame whatever its neighbours, int32 [T]: 0..146 for 49 phones of 3 states."""
    first = np.cumsum(hmm.states_of) - hmm.states_of
    return (first[hmm.table.phone] + hmm.table.state)[transition_ids].astype(np.int32)


def phone_segments(
    hmm: Hmm, transition_ids: Array, *, frame_shift: float = 0.01, offset: float = 0.0
) -> tuple[Segment, ...]:
    """Phones with their times in seconds. Frame t stands for offset + frame_shift [t, t + 1).

    A frame speaks for the middle of its window: where windows of 25 ms every 10 ms begin with the utterance, `offset`
    is 0.0075; where the first is centred on the first 10 ms it is 0. The first phone begins at 0 all the same.
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
    """The words of a transcript with their times, from its aligned phones; silence lies between words."""
    spans = _match(phones, tokens, lexicon, frozenset(silence))
    return tuple(
        Segment(token, phones[start].start, phones[stop - 1].end)
        for token, (start, stop) in zip(tokens, spans, strict=True)
    )


def _match(
    phones: Sequence[Segment], tokens: Sequence[str], lexicon: Lexicon, silence: frozenset[str]
) -> list[tuple[int, int]]:
    """Which phones each token covers: the places after each token are followed side by side, one way to each kept."""
    ways: dict[int, list[tuple[int, int]]] = {0: []}
    for token in tokens:
        longer: dict[int, list[tuple[int, int]]] = {}
        for place, spans in _with_skips(ways, phones, silence).items():
            for said in lexicon[token]:
                stop = place + len(said)
                if [one.label for one in phones[place:stop]] == list(said):
                    longer.setdefault(stop, [*spans, (place, stop)])
        ways = longer
    ends = _with_skips(ways, phones, silence)
    if len(phones) not in ends:
        raise ValueError(f"the phones {[one.label for one in phones]} do not spell {' '.join(tokens)!r}.")
    return ends[len(phones)]


def _with_skips(
    ways: dict[int, list[tuple[int, int]]], phones: Sequence[Segment], silence: frozenset[str]
) -> dict[int, list[tuple[int, int]]]:
    skipped = {
        place + 1: spans for place, spans in ways.items() if place < len(phones) and phones[place].label in silence
    }
    return skipped | ways


def write_ctm(path: str | os.PathLike[str], segments: Iterable[tuple[str, Sequence[Segment]]]) -> None:
    """Write (utterance id, segments) pairs, whole or not at all.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ctm(folder + "/words.ctm", [("ann-1", [Segment("yes", 0.25, 0.5)])])
    ...     print(Path(folder, "words.ctm").read_text())
    ...     read_ctm(folder + "/words.ctm")
    ann-1 1 0.250 0.250 yes
    <BLANKLINE>
    {'ann-1': (Segment(label='yes', start=0.25, end=0.5),)}
    """
    lines = [
        f"{name} 1 {one.start:.3f} {one.end - one.start:.3f} {one.label}\n" for name, row in segments for one in row
    ]
    write_atomically(Path(path), "".join(lines).encode())


def read_ctm(path: str | os.PathLike[str]) -> dict[str, tuple[Segment, ...]]:
    """Segments by utterance id; a line that is not one is an error that names file and line."""
    found: dict[str, list[Segment]] = {}
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
        found.setdefault(name, []).append(segment)
    return {name: tuple(row) for name, row in found.items()}


def read_kaldi_hmm(directory: str | os.PathLike[str], *, silence: tuple[str, ...] = ("SIL",)) -> Hmm:
    """The Hmm of a Kaldi experiment directory, from its `final.mdl` (binary), `tree` and `phones.txt`."""
    folder = Path(directory)
    phones = _read_phones(folder / "phones.txt")
    try:
        tree = tree_from_bytes((folder / "tree").read_bytes())
        topology, tuples, log_probabilities = _read_transition_model((folder / "final.mdl").read_bytes())
        known = tuple(phone for phone in silence if phone in phones)
        hmm = make_hmm(phones=phones, silence=known, topology=topology, tree=tree)
        if [one.__getstate__() for one in hmm.transitions.tuples] != tuples:
            raise ValueError("the tree does not belong to final.mdl, their pdfs differ")
        return hmm.with_log_probabilities(log_probabilities)
    except (ValueError, RuntimeError, struct.error, IndexError, KeyError, FileNotFoundError) as error:
        raise ValueError(f"{folder} must hold a binary tree and final.mdl of Kaldi's: {error}") from error


def read_kaldi_alignments(directory: str | os.PathLike[str]) -> Iterator[tuple[str, Array]]:
    """(utterance id, transition ids [T]) from every ali.*.gz (or ali.*.ark) of a directory."""
    folder = Path(directory)
    files = sorted([*folder.glob("ali.*.gz"), *folder.glob("ali.*.ark")])
    if not files:
        raise ValueError(f"{folder} must hold alignments, ali.*.gz or ali.*.ark, got none.")
    for path in files:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            try:
                yield from read_integer_vectors(file)
            except (ValueError, EOFError, OSError, zlib.error) as error:
                raise ValueError(f"{path} cannot be read as an archive of alignments: {error}") from error


def _read_phones(path: Path) -> tuple[str, ...]:
    """The names of phones 1..n; <eps> and the disambiguation symbols #0, #1, ... are left out."""
    names: dict[int, str] = {}
    for line, text in numbered_lines(path):
        try:
            name, number = text.split()
            if int(number) != 0 and not name.startswith("#"):
                names[int(number)] = name
        except ValueError as error:
            raise ValueError(f"{path}, line {line}, must be `phone number`, got {text!r}.") from error
    if sorted(names) != list(range(1, len(names) + 1)):
        raise ValueError(f"{path} must number its phones from 1 without gaps, got {sorted(names)[:10]} ...")
    return tuple(names[number] for number in sorted(names))


def _read_transition_model(content: bytes) -> tuple[str, list[tuple[int, ...]], Array]:
    """The topology as text, the (phone, state, pdf, pdf of the self-loop) of each transition-state, and log p."""
    if not content.startswith(BINARY):
        raise ValueError("final.mdl is not binary; make it so with `gmm-copy --binary=true`")
    cursor = Cursor(content, len(BINARY))
    cursor.expect("<TransitionModel>")
    topology = _read_topology(cursor)
    kind = cursor.token()
    if kind not in (widths := {"<Triples>": 3, "<Tuples>": 4}):
        raise ValueError(f"expected <Triples> or <Tuples>, got {kind}")
    width = widths[kind]
    rows = [tuple(cursor.integer() for _ in range(width)) for _ in range(cursor.integer())]
    cursor.expect(kind.replace("<", "</"))
    cursor.expect("<LogProbs>")
    return topology, [(*row, row[-1])[:4] for row in rows], cursor.vector()


def _read_topology(cursor: Cursor) -> str:
    cursor.expect("<Topology>")
    phones, entry_of = cursor.integers(), cursor.integers()
    if (count := cursor.integer()) < 0:
        raise ValueError("topologies whose self-loops have pdfs of their own (chain models) cannot be read")
    lines = ["<Topology>"]
    for entry in range(count):
        names = " ".join(str(phone) for phone in phones if entry_of[phone] == entry)
        states = [_read_state(cursor, number) for number in range(cursor.integer())]
        lines += ["<TopologyEntry>", f"<ForPhones> {names} </ForPhones>", *states, "</TopologyEntry>"]
    cursor.expect("</Topology>")
    return "\n".join([*lines, "</Topology>"])


def _read_state(cursor: Cursor, number: int) -> str:
    pdf_class = cursor.integer()
    moves = [(cursor.integer(), cursor.real()) for _ in range(cursor.integer())]
    transitions = " ".join(f"<Transition> {to} {probability:.8g}" for to, probability in moves)
    emits = "" if pdf_class < 0 else f"<PdfClass> {pdf_class} "
    return f"<State> {number} {emits}{transitions} </State>"
