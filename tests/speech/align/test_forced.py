from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bochner.speech.align.forced import (
    FunctionScores,
    GraphCompiler,
    Graphs,
    MixtureScores,
    Search,
    align_equally,
    align_utterances,
    best_path,
    equal_path,
)
from bochner.speech.align.labels import phone_segments
from bochner.speech.hmm.contexts import phone_starts
from bochner.speech.hmm.mixtures import Mixtures
from bochner.speech.hmm.model import monophone_hmm
from bochner.speech.lexicon import Lexicon
from tests.speech.align.conftest import SHIFT


@pytest.fixture(scope="module")
def model(made):
    """The true mixtures: one Gaussian per state, fitted to the frames with their known times."""
    from bochner.speech.hmm.contexts import event_pdfs, segment_events

    hmm = monophone_hmm(phones=made.lexicon.phones, silence=["SIL"])
    frames = np.concatenate([made.frames[utterance.id] for utterance in made.utterances])
    times = {"frame_shift": SHIFT, "offset": 0.0}
    pdfs = np.concatenate(
        [
            event_pdfs(hmm, segment_events(hmm, utterance.phones, len(made.frames[utterance.id]), **times))
            for utterance in made.utterances
        ]
    )
    count = np.arange(hmm.num_pdfs)
    means = np.stack(
        [frames[pdfs == pdf].mean(axis=0) if (pdfs == pdf).any() else frames.mean(axis=0) for pdf in count]
    )
    return hmm, Mixtures(np.ones(len(count), int), np.ones(len(count)), means, np.full(means.shape, 0.6))


def test_known_times_are_found(made, model):
    hmm, mixtures = model
    found = align_utterances(hmm, made.lexicon, made.utterances, MixtureScores(mixtures, made.frames))
    assert not found.skipped
    for utterance in made.utterances:
        segments = phone_segments(hmm, found.paths[utterance.id], frame_shift=SHIFT)
        assert [one.label for one in segments] == [one.label for one in utterance.phones]
        errors = [abs(a.start - b.start) for a, b in zip(segments, utterance.phones, strict=True)]
        assert np.mean(errors) < SHIFT / 2
        assert max(errors) < 3.5 * SHIFT


def test_any_function_can_align(made, model):
    hmm, mixtures = model
    utterances = made.utterances[:5]
    by_mixtures = align_utterances(hmm, made.lexicon, utterances, MixtureScores(mixtures, made.frames))
    constant = lambda name: mixtures.log_likelihoods(made.frames[name]) + 7.0  # noqa: E731
    by_function = align_utterances(hmm, made.lexicon, utterances, FunctionScores(constant))
    for utterance in utterances:
        np.testing.assert_array_equal(by_function.paths[utterance.id], by_mixtures.paths[utterance.id])


def test_what_cannot_be_aligned_is_reported_with_its_reason(made, model):
    hmm, mixtures = model
    good = made.utterances[0]
    bad = [
        good.replace(id="words", text="nobody knows"),
        good.replace(id="short"),
        good.replace(id="silent", text=""),
        good.replace(id="absent"),
        good.replace(id="broken"),
    ]
    frames = dict(made.frames, words=made.frames["u00"], silent=made.frames["u00"], short=made.frames["u00"][:10])
    frames["broken"] = np.full((200, 6), np.nan, np.float32)
    found = align_utterances(hmm, made.lexicon, [good, *bad], MixtureScores(mixtures, frames))
    assert list(found.paths) == ["u00"]
    needed = 3 * len(good.text.replace(" ", ""))
    assert dict(found.skipped) == {
        "words": "words missing from the lexicon (knows, nobody)",
        "short": f"too short for its text (10 frames, {needed} needed)",
        "silent": "no text",
        "absent": "no frames",
        "broken": "scores are not finite",
    }


def test_transition_probabilities_count(made, model):
    """For uninformative frames the path stays in the state with the larger self-loop probability."""
    hmm, _ = model
    utterance = made.utterances[0].replace(text=made.lexicon.words[0])
    nothing = FunctionScores(lambda name: np.zeros((60, hmm.num_pdfs)))
    for patient in (0, 2):
        state_stays = np.where(hmm.table.state == patient, 0.9, 0.1)
        probabilities = np.where(hmm.table.self_loop, state_stays, 1.0 - state_stays)
        patient_hmm = hmm.with_log_probabilities(np.log(probabilities))
        path = align_utterances(
            patient_hmm,
            made.lexicon,
            [utterance],
            nothing,
            search=Search(self_loop_scale=1.0, beam=500.0, retry_beam=900.0),
        ).paths[utterance.id]
        assert np.bincount(hmm.table.state[path]).argmax() == patient


def test_equal_alignment_reports_too(made):
    hmm = monophone_hmm(phones=made.lexicon.phones, silence=["SIL"])
    good = made.utterances[0]
    frames = {"u00": made.frames["u00"], "short": made.frames["u00"][:10]}
    utterances = [good, good.replace(id="short"), good.replace(id="absent")]
    found = align_equally(hmm, made.lexicon, utterances, frames, seed=0)
    assert len(found.paths["u00"]) == len(frames["u00"])
    assert [one.id for one in found.skipped] == ["short", "absent"]


def test_another_process_keeps_the_graphs_of_one_tree():
    graphs, others = Graphs(), Graphs()
    copy = pickle.loads(pickle.dumps(graphs))
    copy["a"] = "compiled"
    assert pickle.loads(pickle.dumps(graphs)) is copy
    assert pickle.loads(pickle.dumps(others)) == {}
    assert pickle.loads(pickle.dumps(graphs)) == {}  # only the last is kept


def test_a_pool_gives_the_same(made, model):
    hmm, mixtures = model
    scores = MixtureScores(mixtures, made.frames)
    alone = align_utterances(hmm, made.lexicon, made.utterances, scores)
    with ThreadPoolExecutor(2) as pool:
        shared = align_utterances(hmm, made.lexicon, made.utterances, scores, pool=pool)
    assert list(shared.paths) == list(alone.paths)
    assert all((shared.paths[name] == alone.paths[name]).all() for name in alone.paths)


def test_all_that_is_sent_to_processes_can_be(made, model):
    hmm, mixtures = model
    hmm, scores = pickle.loads(pickle.dumps((hmm, MixtureScores(mixtures, made.frames))))
    assert align_utterances(hmm, made.lexicon, made.utterances[:1], scores).paths


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
        total = scores[:, hmm.table.pdf[graph.transition_ids]]
        path = best_path(graph, lambda: np.split(total, [1, 17]), beam=1e6, retry_beam=2e6)  # noqa: B023
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
    path = best_path(graph, lambda: [scores], beam=100, retry_beam=200)
    assert len(path) == 9
    states = hmm.table.state[path]
    assert (np.diff(states)[np.diff(states) != 0] % 3 == 1).all()


def test_no_path_where_there_are_too_few_frames(compiler):
    graph = compiler.compile(["ab"])
    scores = np.zeros((5, len(graph.transition_ids)))
    assert best_path(graph, lambda: [scores], beam=100, retry_beam=200) is None


def test_the_wider_beam_reads_the_blocks_again(compiler):
    """Silence fits all frames best, so that a narrow beam loses the paths that reach the end in time."""
    hmm, tokens = compiler.hmm, ["ab"] * 12
    graph = compiler.compile(tokens)
    silent = hmm.table.phone[graph.transition_ids] == hmm.phone_ids["SIL"]
    scores = np.where(silent, 0.0, -50.0) * np.ones((compiler.min_frames(tokens) + 3, 1))
    calls = []

    def blocks():
        calls.append(len(calls))
        return np.split(scores, 3)

    path = best_path(graph, blocks, beam=1.0, retry_beam=10_000.0)
    assert calls == [0, 1]
    assert len(path) == len(scores)
    assert phones_of(hmm, path).replace("S", "") == "ab" * 12


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
    assert compiler.min_frames(["ab", "ba"]) == 9  # the shorter pronunciation of ba


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match=r"retry_beam must be above beam 10\.0, got 5"):
        Search(retry_beam=5.0)


def test_phones_unknown_to_the_model_are_named():
    with pytest.raises(ValueError, match="a, b are not"):
        GraphCompiler(monophone_hmm(phones=["SIL", "x"]), LEXICON)
