"""Hidden Markov models of phones: topology, transitions and tied states."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from bochner.checks import positive_int
from bochner.speech.frames import Array
from bochner.speech.kaldi import kaldi_hmm_gmm
from bochner.speech.kaldi_formats import BINARY, _read_phones, _read_transition_model, check_tree
from bochner.speech.text_files import FilePath
from bochner.storage import read_tensors, write_atomically, write_tensors

SELF_LOOP, FORWARD = 0.75, 0.25  # initial probabilities, as in Kaldi


def write_topology(
    *, num_phones: int, silence: Collection[int] = (), num_states: int = 3, num_silence_states: int = 3
) -> str:
    """Left-to-right models for phones 1..num_phones, and another topology for those in `silence`.

    A phone passes through its `num_states` states in order, with self-loops. Silence begins in its first state and ends
    in its last; with four or more states, transitions between the others are unrestricted, since silence has no order.

    Source: Kaldi's `utils/gen_topo.pl`.

    >>> print(write_topology(num_phones=2, num_states=1))
    <Topology>
    <TopologyEntry>
    <ForPhones> 1 2 </ForPhones>
    <State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State>
    <State> 1 </State>
    </TopologyEntry>
    </Topology>
    """
    phones = range(1, positive_int("num_phones", num_phones) + 1)
    if unknown := sorted(set(silence) - set(phones)):
        raise ValueError(f"silence must be among the phones 1..{num_phones}, got {unknown}.")
    speech = [phone for phone in phones if phone not in silence]
    entries = []
    if speech:
        entries.append(_entry(speech, _left_to_right(positive_int("num_states", num_states))))
    if silence:
        entries.append(_entry(sorted(silence), _free(positive_int("num_silence_states", num_silence_states))))
    return "\n".join(["<Topology>", *entries, "</Topology>"])


def _left_to_right(num_states: int) -> list[dict[int, float]]:
    """For each state, its successors with their probabilities."""
    return [{state: SELF_LOOP, state + 1: FORWARD} for state in range(num_states)]


def _free(num_states: int) -> list[dict[int, float]]:
    if num_states < 3:
        return _left_to_right(num_states)
    share = 1.0 / (num_states - 1)
    first = dict.fromkeys(range(num_states - 1), share)
    middle = dict.fromkeys(range(1, num_states), share)
    return [first, *[middle] * (num_states - 2), {num_states - 1: SELF_LOOP, num_states: FORWARD}]


def _entry(phones: Iterable[int], moves: list[dict[int, float]]) -> str:
    states = [_state(number, to) for number, to in enumerate(moves)]
    names = " ".join(map(str, phones))
    head = ["<TopologyEntry>", f"<ForPhones> {names} </ForPhones>"]
    return "\n".join([*head, *states, f"<State> {len(moves)} </State>", "</TopologyEntry>"])


def _state(number: int, moves: dict[int, float]) -> str:
    transitions = " ".join(f"<Transition> {to} {probability:g}" for to, probability in moves.items())
    return f"<State> {number} <PdfClass> {number} {transitions} </State>"


class TransitionTable(NamedTuple):
    """The properties of each transition id; arrays [1 + number of ids], whose unused entry 0 is zero.

    `phone` is the id of the phone, `state` the number of the state within it, `source` the number of the
    transition-state (from 1), `pdf` the pdf of the transition, `self_loop` whether it stays in its state.
    """

    phone: Array
    state: Array
    pdf: Array
    source: Array
    self_loop: Array


@dataclass(frozen=True, eq=False)
class Hmm:
    """Phones as sequences of pdfs (tied states), without the densities of the pdfs.

    `phones` are names; phone i has the id i + 1 (0 is Kaldi's <eps>). `silence` names the phones without speech.
    `tree` and `transitions` are the ContextDependency and TransitionModel of kaldi_hmm_gmm.

    >>> hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"])
    >>> hmm.num_pdfs, hmm.table.pdf[1:5].tolist(), hmm.table.self_loop[1:5].tolist()
    (9, [0, 0, 1, 1], [True, False, True, False])
    """

    phones: tuple[str, ...]
    silence: tuple[str, ...]
    topology: str
    tree: Any
    transitions: Any

    @property
    def num_pdfs(self) -> int:
        return int(self.transitions.num_pdfs)

    @property
    def num_transition_ids(self) -> int:
        return int(self.transitions.num_transition_ids)

    @property
    def context_width(self) -> int:
        return int(self.tree.context_width)

    @cached_property
    def phone_ids(self) -> dict[str, int]:
        return {phone: number for number, phone in enumerate(self.phones, start=1)}

    @cached_property
    def min_frames(self) -> dict[str, int]:
        """The least number of frames of each phone."""
        topology = self.transitions.topo
        return {phone: topology.min_length(number) for phone, number in self.phone_ids.items()}

    @cached_property
    def states_of(self) -> Array:
        """The number of states of each phone, by its id [1 + phones]."""
        states = np.zeros(len(self.phones) + 1, dtype=np.int32)
        np.maximum.at(states, self.table.phone[1:], self.table.state[1:].astype(np.int32) + 1)
        return states

    @cached_property
    def table(self) -> TransitionTable:
        source = np.array(self.transitions.id2state)
        tuples = np.array([(0, 0, 0, 0)] + [entry.__getstate__() for entry in self.transitions.tuples])
        phone, state, pdf, _ = tuples[source].T
        ids = range(1, self.num_transition_ids + 1)
        self_loop = np.array([False] + [self.transitions.is_self_loop(number) for number in ids])
        return TransitionTable(phone, state, pdf.astype(np.int32), source, self_loop)

    def save(self, directory: FilePath) -> None:
        """Kaldi's `phones.txt`, `topo` and `tree`, and the transition probabilities in `transitions.safetensors`."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        names = ["<eps> 0"] + [f"{phone} {number}" for phone, number in self.phone_ids.items()]
        write_atomically(directory / "phones.txt", ("\n".join(names) + "\n").encode())
        write_atomically(directory / "topo", self.topology.encode())
        write_atomically(directory / "tree", BINARY + tree_bytes(self.tree))
        state = {"log_probabilities": torch.tensor(self.transitions.log_probs, dtype=torch.float64)}
        write_tensors(directory / "transitions.safetensors", state, {"silence": list(self.silence)})

    @classmethod
    def load(cls, directory: FilePath) -> Hmm:
        try:
            return cls._read(Path(directory))
        except FileNotFoundError as error:
            name = Path(error.filename).name
            raise ValueError(f"{directory} must hold a saved Hmm, but {name} is missing.") from error
        except (ValueError, RuntimeError, KeyError, IndexError) as error:
            raise ValueError(f"{directory} does not hold a complete Hmm: {error}") from error

    @classmethod
    def _read(cls, directory: Path) -> Hmm:
        lines = (directory / "phones.txt").read_text(encoding="utf-8").splitlines()
        tensors, header = read_tensors(directory / "transitions.safetensors")
        tree = tree_from_bytes((directory / "tree").read_bytes())
        topology = (directory / "topo").read_text(encoding="utf-8")
        phones = [line.split()[0] for line in lines[1:]]
        hmm = make_hmm(phones=phones, silence=header["silence"], topology=topology, tree=tree)
        return hmm.with_log_probabilities(tensors["log_probabilities"].numpy())

    def with_log_probabilities(self, log_probabilities: Array) -> Hmm:
        """The same model with log p of each transition id [1 + ids] (entry 0 is unused)."""
        if log_probabilities.shape != (self.num_transition_ids + 1,):
            raise ValueError(
                f"log_probabilities must be [{self.num_transition_ids + 1}], got {list(log_probabilities.shape)}."
            )
        looping = np.zeros(self.table.source.max() + 1)
        np.add.at(looping, self.table.source[self.table.self_loop], np.exp(log_probabilities[self.table.self_loop]))
        leaving = np.log(np.maximum(1.0 - looping, 1e-10))
        leaving[0] = 0.0
        state = list(self.transitions.__getstate__())
        state[6:8] = [log_probabilities.tolist(), leaving.tolist()]
        transitions = kaldi_hmm_gmm.TransitionModel.__new__(kaldi_hmm_gmm.TransitionModel)
        transitions.__setstate__(tuple(state))
        return Hmm(self.phones, self.silence, self.topology, self.tree, transitions)


def make_hmm(*, phones: Sequence[str], silence: Sequence[str], topology: str, tree: Any) -> Hmm:
    """An Hmm with the transition probabilities of the topology."""
    parsed = _parse(topology)
    return Hmm(tuple(phones), tuple(silence), topology, tree, kaldi_hmm_gmm.TransitionModel(tree, parsed))


def monophone_hmm(
    *, phones: Sequence[str], silence: Sequence[str] = (), num_states: int = 3, num_silence_states: int = 3
) -> Hmm:
    """One pdf for each state of each phone: 3 x 49 = 147 for TIMIT's 49 phones."""
    if len(set(phones)) != len(phones) or not set(silence) <= set(phones):
        raise ValueError(f"phones must differ and contain silence {list(silence)}, got {list(phones)}.")
    numbers = [number for number, phone in enumerate(phones, start=1) if phone in silence]
    topology = write_topology(
        num_phones=len(phones), silence=numbers, num_states=num_states, num_silence_states=num_silence_states
    )
    parsed = _parse(topology)
    tree = kaldi_hmm_gmm.monophone_context_dependency(parsed.phones, parsed.get_phone_to_num_pdf_classes())
    return make_hmm(phones=phones, silence=silence, topology=topology, tree=tree)


def tree_bytes(tree: Any) -> bytes:
    """A ContextDependency in Kaldi's binary format, without the header of a file."""
    (signed,) = tree.__getstate__()
    return np.array(signed, dtype=np.int8).tobytes()


def tree_from_bytes(content: bytes) -> Any:
    """The tree from the result of `tree_bytes`, or from a binary `tree` file of Kaldi's."""
    content = content.removeprefix(BINARY)
    if not content.startswith(b"ContextDependency "):
        raise ValueError(f"a tree must be in Kaldi's binary format, got content that begins {content[:20]!r}.")
    check_tree(content)
    tree = kaldi_hmm_gmm.ContextDependency.__new__(kaldi_hmm_gmm.ContextDependency)
    tree.__setstate__((np.frombuffer(content, dtype=np.int8).tolist(),))
    return tree


def _parse(topology: str) -> Any:
    parsed = kaldi_hmm_gmm.HmmTopology()
    parsed.read(topology)
    return parsed


def read_kaldi_hmm(directory: FilePath, *, silence: tuple[str, ...] = ("SIL",)) -> Hmm:
    """The Hmm of a Kaldi experiment directory, from its `final.mdl` (binary), `tree` and `phones.txt`."""
    directory = Path(directory)
    phones = _read_phones(directory / "phones.txt")
    try:
        tree = tree_from_bytes((directory / "tree").read_bytes())
        topology, tuples, log_probabilities = _read_transition_model((directory / "final.mdl").read_bytes())
        known = tuple(phone for phone in silence if phone in phones)
        hmm = make_hmm(phones=phones, silence=known, topology=topology, tree=tree)
        if [entry.__getstate__() for entry in hmm.transitions.tuples] != tuples:
            raise ValueError("the tree does not belong to final.mdl, their pdfs differ")
        return hmm.with_log_probabilities(log_probabilities)
    except (ValueError, RuntimeError, struct.error, IndexError, KeyError, FileNotFoundError) as error:
        raise ValueError(f"{directory} must hold a binary tree and final.mdl of Kaldi's: {error}") from error
