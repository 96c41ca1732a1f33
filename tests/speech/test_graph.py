"""HCLG: costs of paths, and copies on disk."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bochner.speech import graph as cache
from bochner.speech.align import FunctionScores, align_utterances
from bochner.speech.align import Search as AlignmentSearch
from bochner.speech.decode import Search, decode, decode_lattice
from bochner.speech.graph import DecodingGraph, cached_graph, compose_graph
from bochner.speech.hmm.contexts import transition_weights
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon, phone_lexicon
from bochner.speech.lm import estimate, uniform
from bochner.speech.manifest import Utterance
from tests.speech.decode.made import passed_pdfs, pointing_at, triphone_hmm

LEXICON = Lexicon({"no": [("n", "o")], "know": [("n", "o")], "on": [("o", "n"), ("a", "n")], "noon": [("n", "u", "n")]})
GRAMMAR = estimate(
    ["no no on", "know on", "on on noon", "no on", "on no", "i know"], order=3, fallback_discounts=(0.5, 1.0, 1.5)
)
MAKERS = {"monophone": monophone_hmm, "triphone": lambda *, phones, silence: triphone_hmm(phones, silence=silence)}


@pytest.fixture(params=sorted(MAKERS))
def hmm(request):
    return MAKERS[request.param](phones=LEXICON.phones, silence=["SIL"])


@pytest.mark.parametrize(
    ("phones", "words"),
    [
        ("SIL n o SIL", "no"),
        ("n o a n", "no on"),  # two words without silence between
        ("SIL a n SIL o n n u n", "on on noon"),
    ],
)
def test_the_cost_of_a_path_is_that_of_its_words_and_silences(hmm, phones, words):
    graph = compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR, transition_scale=0.0, self_loop_scale=0.0)
    scores = pointing_at(passed_pdfs(hmm, phones.split()), num_pdfs=hmm.num_pdfs, height=50.0)
    found = decode(graph, scores, acoustic_weight=1.0)
    assert found.words == tuple(words.split())
    assert found.complete
    grammar = -math.log(10) * GRAMMAR.score(GRAMMAR.encode([words])).sum()
    silences = (len(words.split()) + 1) * math.log(2)
    assert found.graph_cost == pytest.approx(grammar + silences, abs=0.02)  # minimisation rounds costs to 1/1024


def test_transition_ids_are_those_of_the_frames_pdfs(hmm):
    graph = compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR)
    pdfs = passed_pdfs(hmm, ["SIL", "o", "n", "n", "u", "n"])
    found = decode(graph, pointing_at(pdfs, num_pdfs=hmm.num_pdfs), acoustic_weight=1.0)
    assert hmm.table.pdf[found.transition_ids].tolist() == pdfs


@pytest.mark.parametrize("seed", range(3))
def test_a_phone_loop_walks_the_path_of_forced_alignment_at_the_same_cost(hmm, seed):
    """For any contexts of the frames, the path of the loop is the forced alignment of its phones."""
    loop = phone_lexicon(LEXICON.phones)
    grammar = estimate(["n o a n SIL", "o n u n"], order=2, vocabulary=loop.words, fallback_discounts=(0.5, 1.0, 1.5))
    graph = compose_graph(hmm=hmm, lexicon=loop, grammar=grammar)
    scores = 3 * np.random.default_rng(seed).standard_normal((50, hmm.num_pdfs))
    found = decode(graph, scores, acoustic_weight=1.0, search=Search(beam=300.0, max_active=100_000))
    utterance = Utterance(
        id="u", speaker="s", part="dev", text=" ".join(found.words), audio="u.wav", rate=16000, duration=0.5
    )
    search = AlignmentSearch(acoustic_scale=1.0, beam=300.0)
    path = align_utterances(hmm, loop, [utterance], FunctionScores(lambda name: scores), search=search).paths["u"]
    assert path.tolist() == found.transition_ids.tolist()
    words = -math.log(10) * grammar.score(grammar.encode([utterance.text])).sum()
    assert found.graph_cost == pytest.approx(words - transition_weights(hmm)[path].sum(), abs=0.05)


def test_the_grammar_decides_between_homophones():
    hmm = monophone_hmm(phones=LEXICON.phones, silence=["SIL"])
    scores = pointing_at(passed_pdfs(hmm, ["n", "o"]), num_pdfs=hmm.num_pdfs)
    for sentence in ("no", "know"):
        grammar = estimate([sentence] * 3, order=2, vocabulary=LEXICON.words, fallback_discounts=(0.5, 1.0, 1.5))
        assert decode(compose_graph(hmm=hmm, lexicon=LEXICON, grammar=grammar), scores).words == (sentence,)


def test_a_word_penalty_adds_to_each_word():
    hmm = monophone_hmm(phones=LEXICON.phones, silence=["SIL"])
    graph = compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR)
    scores = pointing_at(passed_pdfs(hmm, ["n", "o", "SIL", "a", "n"]), num_pdfs=hmm.num_pdfs, height=60.0)
    plain = decode(graph, scores, acoustic_weight=1.0)
    dear = decode(graph.with_word_penalty(1.5), scores, acoustic_weight=1.0)
    assert dear.words == plain.words
    assert dear.graph_cost == pytest.approx(plain.graph_cost + 2 * 1.5, abs=1e-3)
    assert graph.with_word_penalty(0.0) is graph


def test_round_trip(tmp_path):
    hmm = monophone_hmm(phones=LEXICON.phones, silence=["SIL"])
    graph = compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR)
    graph.save(tmp_path / "graph")
    again = DecodingGraph.load(tmp_path / "graph")
    assert again.words == graph.words
    assert np.array_equal(again.pdfs, graph.pdfs)
    assert again.fingerprint() == graph.fingerprint()


class TestCache:
    @pytest.fixture
    def parts(self):
        return {
            "hmm": monophone_hmm(phones=LEXICON.phones, silence=["SIL"]),
            "lexicon": LEXICON,
            "grammar": GRAMMAR,
            "self_loop_scale": 0.1,
        }

    def test_the_same_parts_are_composed_once(self, tmp_path, parts, monkeypatch):
        first = cached_graph(tmp_path, **parts)
        monkeypatch.setattr(cache, "compose_graph", None)
        assert cached_graph(tmp_path, **parts).fingerprint() == first.fingerprint()

    @pytest.mark.parametrize(
        "change",
        [
            {"lexicon": Lexicon({**LEXICON.entries, "on": [("o", "n")]})},
            {"grammar": uniform(LEXICON.words)},
            {"hmm": triphone_hmm(LEXICON.phones, silence=["SIL"])},
            {"hmm": monophone_hmm(phones=LEXICON.phones)},
            {"self_loop_scale": 1.0},
            {"silence_probability": 0.25},
        ],
    )
    def test_other_parts_are_another_graph(self, tmp_path, parts, change):
        first = cached_graph(tmp_path, **parts)
        assert cached_graph(tmp_path, **{**parts, **change}).fingerprint() != first.fingerprint()
        assert len(list(tmp_path.iterdir())) == 2

    def test_another_tree_of_the_same_size_is_another_graph(self, tmp_path, parts):
        for asked in (0, 1):
            cached_graph(tmp_path, **{**parts, "hmm": triphone_hmm(LEXICON.phones, silence=["SIL"], asked=asked)})
        assert len(list(tmp_path.iterdir())) == 2

    def test_another_process_may_store_the_same_graph_first(self, tmp_path, parts, monkeypatch):
        """Its copy is kept; any other failure to write is an error."""
        save = DecodingGraph.save

        def on_a_full_disk(graph, directory):
            raise OSError("disk full")

        def after_another(graph, directory):
            with monkeypatch.context() as other:
                other.setattr(DecodingGraph, "save", save)
                cached_graph(tmp_path, **parts)
            raise OSError("the directory exists")

        monkeypatch.setattr(DecodingGraph, "save", on_a_full_disk)
        with pytest.raises(OSError, match="disk full"):
            cached_graph(tmp_path, **parts)
        monkeypatch.setattr(DecodingGraph, "save", after_another)
        graph = cached_graph(tmp_path, **parts)
        monkeypatch.undo()
        assert cached_graph(tmp_path, **parts).fingerprint() == graph.fingerprint()

    def test_other_transition_probabilities_are_another_graph(self, tmp_path, parts):
        cached_graph(tmp_path, **parts)
        log_probs = np.array(parts["hmm"].transitions.log_probs)
        parts["hmm"] = parts["hmm"].with_log_probabilities(log_probs + np.log(0.9))
        cached_graph(tmp_path, **parts)
        assert len(list(tmp_path.iterdir())) == 2

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("labels.json", b"{"),
            ("labels.json", b"[]"),
            ("labels.json", None),
            ("HCLG.fst", None),
            ("HCLG.fst", b"x" * 99),
        ],
    )
    def test_a_broken_copy_is_named(self, tmp_path, parts, name, content):
        cached_graph(tmp_path, **parts)
        (folder,) = tmp_path.iterdir()
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"does not hold a complete decoding graph: .*; delete it"):
            cached_graph(tmp_path, **parts)

    def test_one_changed_byte_is_seen(self, tmp_path, parts):
        cached_graph(tmp_path, **parts)
        (folder,) = tmp_path.iterdir()
        content = bytearray((folder / "HCLG.fst").read_bytes())
        content[-20] ^= 64
        (folder / "HCLG.fst").write_bytes(content)
        with pytest.raises(ValueError, match=r"checksum of HCLG\.fst"):
            cached_graph(tmp_path, **parts)


def test_phones_unknown_to_the_model_are_named():
    with pytest.raises(ValueError, match="but u are not"):
        compose_graph(hmm=monophone_hmm(phones=["SIL", "n", "o", "a"]), lexicon=LEXICON, grammar=GRAMMAR)


def test_using_a_graph_does_not_change_its_fingerprint():
    """A resumed run must recognise its graph."""
    hmm = monophone_hmm(phones=LEXICON.phones, silence=["SIL"])
    graph = compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR)
    before = graph.fingerprint()
    scores = pointing_at(passed_pdfs(hmm, ["n", "o"]), num_pdfs=hmm.num_pdfs)
    decode(graph, scores)
    decode_lattice(graph, scores)
    graph.with_word_penalty(1.0)
    assert graph.fingerprint() == before
    assert compose_graph(hmm=hmm, lexicon=LEXICON, grammar=GRAMMAR).fingerprint() == before
