import numpy as np
import pytest

from bochner.speech.align.forced import GraphCompiler, Search, best_path, equal_path
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon

LEXICON = Lexicon({"ab": [("a", "b")], "ba": [("b", "a"), ("b",)], "a": [("a",)]})


@pytest.fixture(scope="module")
def compiler():
    return GraphCompiler(monophone_hmm(phones=LEXICON.phones, silence=["SIL"]), LEXICON)


def phones_of(hmm, path):
    return "".join(hmm.phones[hmm.table.phone[path[start]] - 1][0] for start in phone_starts(hmm, path))


def naive_viterbi(hmm, spelling, scores):
    """The best total over paths through the states of these phones in a row; scores [T, pdfs], float64."""
    pdfs = [3 * (hmm.phone_ids[phone] - 1) + state for phone in spelling for state in range(3)]
    best = np.full(len(pdfs), -np.inf)
    best[0] = scores[0, pdfs[0]]
    for row in scores[1:]:
        before = np.concatenate([[-np.inf], best[:-1]])
        best = np.maximum(best, before) + row[pdfs]
    return best[-1]


def test_the_path_is_the_best_of_all_spellings(compiler):
    hmm, generator = compiler.hmm, np.random.default_rng(0)
    for _ in range(5):
        scores = generator.standard_normal((30, hmm.num_pdfs)) * 3
        graph = compiler.compile(["ab", "ba"])
        path = best_path(graph, scores[:, hmm.table.pdf[graph.transition_ids]], beam=1e6, retry_beam=2e6)
        found = scores[np.arange(30), hmm.table.pdf[path]].sum()
        totals = {}
        for word in (["b", "a"], ["b"]):
            for gaps in np.ndindex(2, 2, 2):
                silences = [["SIL"] * gap for gap in gaps]
                spelling = [*silences[0], "a", "b", *silences[1], *word, *silences[2]]
                totals["".join(phone[0] for phone in spelling)] = naive_viterbi(hmm, spelling, scores)
        # a spelling costs log 2 for each choice of silence and nothing for the pronunciation: the same for all
        assert found == pytest.approx(max(totals.values()), abs=1e-3)
        assert phones_of(hmm, path) == max(totals, key=totals.get)


def test_a_path_passes_through_all_states_in_order(compiler):
    hmm, graph = compiler.hmm, compiler.compile(["a"])
    scores = np.zeros((9, len(graph.transition_ids)))
    path = best_path(graph, scores, beam=100, retry_beam=200)
    assert len(path) == 9
    states = hmm.table.state[path]
    assert (np.diff(states)[np.diff(states) != 0] % 3 == 1).all()


def test_no_path_where_there_are_too_few_frames(compiler):
    graph = compiler.compile(["ab"])
    assert best_path(graph, np.zeros((5, len(graph.transition_ids))), beam=100, retry_beam=200) is None


@pytest.mark.parametrize("tokens", [["ab"], ["ba", "a"]])
def test_equal_paths_last_equally_long(compiler, tokens):
    path = equal_path(compiler.compile(tokens), 60, seed=0)
    lengths = np.diff(np.flatnonzero(np.append(~compiler.hmm.table.self_loop[path], True)))
    assert len(path) == 60
    assert lengths.max() - lengths.min() <= 1


def test_equal_paths_follow_their_seed(compiler):
    graph = compiler.compile(["ba", "ba", "ba", "ba"])
    paths = [equal_path(graph, 90, seed=seed).tolist() for seed in range(8)]
    assert equal_path(graph, 90, seed=3).tolist() == paths[3]
    assert len(set(map(tuple, paths))) > 1


def test_fewest_frames(compiler):
    assert compiler.min_frames(["ab", "ba"]) == 9  # the shorter way to say ba


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"retry_beam must be above beam 10\.0, got 5"):
        Search(retry_beam=5.0)


def test_phones_unknown_to_the_model_are_named():
    with pytest.raises(ValueError, match="a, b are not"):
        GraphCompiler(monophone_hmm(phones=["SIL", "x"]), LEXICON)
