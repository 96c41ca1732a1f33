"""The shape of each phone's hidden Markov model, in Kaldi's text format."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from bochner.checks import positive_int

SELF_LOOP, FORWARD = 0.75, 0.25  # where training starts, as in Kaldi


def write_topology(
    *, num_phones: int, silence: Collection[int] = (), num_states: int = 3, num_silence_states: int = 3
) -> str:
    """Left-to-right models for phones 1..num_phones; those in `silence` get a model of their own.

    A phone goes through its `num_states` states in order and stays in each as long as it likes. Silence begins in its
    first state and ends in its last; between them, from four states on, it moves freely, for silence has no order.

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
    if strange := sorted(set(silence) - set(phones)):
        raise ValueError(f"silence must be among the phones 1..{num_phones}, got {strange}.")
    spoken = [phone for phone in phones if phone not in silence]
    entries = []
    if spoken:
        entries.append(_entry(spoken, _left_to_right(positive_int("num_states", num_states))))
    if silence:
        entries.append(_entry(sorted(silence), _free(positive_int("num_silence_states", num_silence_states))))
    return "\n".join(["<Topology>", *entries, "</Topology>"])


def _left_to_right(num_states: int) -> list[dict[int, float]]:
    """For each state, the states it may go to with their probabilities."""
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
