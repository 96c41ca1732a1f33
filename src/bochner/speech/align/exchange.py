"""Models and alignments that Kaldi made: final.mdl, tree, phones.txt and ali.*.gz."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from bochner.speech.frontend.archives import read_integer_vectors
from bochner.speech.hmm.binary import Cursor
from bochner.speech.hmm.model import BINARY, Hmm, make_hmm, tree_from_bytes
from bochner.speech.lines import numbered_lines

Array = NDArray[Any]


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
