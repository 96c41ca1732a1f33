"""The MMI objective compared with the explicit sum over all paths and with finite differences."""

import itertools
import math

import numpy as np
import pytest
import torch

from bochner.acoustic.mmi import StateGraph, log_partition, mmi, occupancies, phone_graph
from bochner.speech.hmm import monophone_hmm

T, S = 5, 3


def made_graph(*, num_nodes=4, seed=0):
    """Some arcs, starts and ends are missing; two nodes share a pdf."""
    G = torch.Generator().manual_seed(seed)
    dense = torch.rand(num_nodes, num_nodes, generator=G, dtype=torch.float64)
    dense[0, 2] = dense[-1, 1] = 0.0
    sources, targets = dense.nonzero(as_tuple=True)
    starts, ends = torch.rand(2, num_nodes, generator=G, dtype=torch.float64)
    starts[1] = ends[2] = 0.0
    pdfs = torch.tensor([0, 1, 2, 1])[:num_nodes]
    return StateGraph(pdfs, starts, ends, sources, targets, dense[sources, targets])


def made_scores(*, size=1, seed=1):
    return 2 * torch.randn(size, T, S, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def enumerated(graph, scores):
    """Every path with its weight: {path: weight} for scores [T, S]."""
    W = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    W[graph.sources, graph.targets] = graph.weights
    W, starts, ends, emitted = (x.tolist() for x in (W, graph.starts, graph.ends, scores[:, graph.pdfs].exp()))
    weights = {}
    for path in itertools.product(range(graph.num_nodes), repeat=len(scores)):
        steps = [W[here][there] for here, there in itertools.pairwise(path)]
        emissions = [emitted[t][n] for t, n in enumerate(path)]
        weights[path] = starts[path[0]] * ends[path[-1]] * math.prod(steps) * math.prod(emissions)
    return weights


def test_the_partition_is_the_sum_over_all_paths():
    graph, scores = made_graph(), made_scores(size=3)
    lengths = torch.tensor([5, 1, 3])
    expected = [math.log(sum(enumerated(graph, x[:n]).values())) for x, n in zip(scores, lengths, strict=True)]
    torch.testing.assert_close(log_partition(graph, scores, lengths), torch.tensor(expected, dtype=torch.float64))


def test_occupancies_are_shares_of_the_paths():
    graph, scores = made_graph(), made_scores()
    paths = enumerated(graph, scores[0, :4])
    total = sum(paths.values())
    expected = torch.zeros(1, T, S, dtype=torch.float64)
    for path, weight in paths.items():
        for t, node in enumerate(path):
            expected[0, t, graph.pdfs[node]] += weight / total
    torch.testing.assert_close(occupancies(graph, scores, torch.tensor([4])), expected)


def test_the_gradient_is_that_of_finite_differences():
    graph, lengths = made_graph(), torch.tensor([5, 3])
    labels = torch.tensor([[0, 1, 1, 2, 0], [2, 0, 1, 0, 0]])
    log_priors = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()

    def objective(logits):
        return mmi(graph, logits, labels, lengths, log_priors=log_priors, acoustic_weight=0.7)

    logits = made_scores(size=2).requires_grad_()
    assert torch.autograd.gradcheck(objective, (logits,))


def test_a_batch_is_its_utterances_alone():
    graph, logits = made_graph(), made_scores(size=2)
    labels, lengths = torch.tensor([[0, 1, 1, 2, 0], [1, 0, 1, 0, 0]]), torch.tensor([5, 2])
    settings = {"log_priors": torch.zeros(S), "acoustic_weight": 0.5}
    together = mmi(graph, logits, labels, lengths, **settings)
    alone = [mmi(graph, logits[b, None, :n], labels[b, None, :n], lengths[b, None], **settings)
             for b, n in enumerate(lengths)]  # fmt: skip
    torch.testing.assert_close(together, torch.cat(alone))


def test_the_objective_is_the_log_posterior_of_the_aligned_path():
    """If each node has its own pdf, and the weight of the path in the graph is added."""
    graph = made_graph(num_nodes=3)
    logits, path = made_scores(), (0, 1, 2, 0, 1)
    paths = enumerated(graph, 0.5 * logits[0])
    weight = enumerated(graph, torch.zeros(T, S))[path]
    objective = mmi(
        graph, logits, torch.tensor([path]), torch.tensor([T]), log_priors=torch.zeros(S), acoustic_weight=0.5
    )
    assert float(objective) + math.log(weight) == pytest.approx(math.log(paths[path] / sum(paths.values())))


def test_a_constant_added_to_the_logits_of_a_frame_cancels():
    graph, logits, labels, lengths = made_graph(), made_scores(), torch.tensor([[0, 1, 1, 2, 0]]), torch.tensor([T])
    settings = {"log_priors": torch.zeros(S), "acoustic_weight": 0.5}
    moved = logits + 1e4 * torch.arange(T)[:, None]
    torch.testing.assert_close(
        mmi(graph, moved, labels, lengths, **settings), mmi(graph, logits, labels, lengths, **settings)
    )


def test_long_utterances_with_sure_scores_stay_finite():
    """2,000 frames with scores up to hundreds, for which products of probabilities would underflow."""
    graph = made_graph()
    scores = 100 * torch.randn(1, 2000, S, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    scores.requires_grad_()
    log_partition(graph, scores, torch.tensor([2000])).sum().backward()
    torch.testing.assert_close(scores.grad.sum(dim=2), torch.ones(1, 2000, dtype=torch.float64))


@pytest.mark.parametrize(
    ("scores", "lengths", "message"),
    [
        (torch.zeros(1, T, 2), [T], r"scores must be \[B, T, S\] with S >= 3 pdfs, got \[1, 5, 2\]"),
        (torch.zeros(1, T, S), [T + 1], "lengths must be 1 numbers from 1 to 5, got"),
        (torch.full((1, T, S), -torch.inf), [T], "no path for utterances"),
    ],
)
def test_errors_name_the_problem(scores, lengths, message):
    with pytest.raises(ValueError, match=message):
        log_partition(made_graph(), scores, torch.tensor(lengths))


def transition_ids(hmm, phones, lasting=2):
    """Transition ids of phones whose states last equally: the leaving one first, then self-loops."""
    table, ids = hmm.table, []
    for phone in phones:
        of_phone = np.flatnonzero(table.phone == hmm.phone_ids[phone])
        for state in range(hmm.states_of[hmm.phone_ids[phone]]):
            here = of_phone[table.state[of_phone] == state]
            leaving, loop = here[~table.self_loop[here]][0], here[table.self_loop[here]][0]
            ids += [leaving] + [loop] * (lasting - 1)
    return np.array(ids)


def test_the_graph_of_monophones_is_their_bigram():
    hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"])
    graph = phone_graph(hmm, [transition_ids(hmm, ["SIL", "a", "b", "a"]), transition_ids(hmm, ["a", "b"])])
    nodes = {int(pdf): node for node, pdf in enumerate(graph.pdfs)}
    weights = {(int(s), int(t)): float(w) for s, t, w in zip(graph.sources, graph.targets, graph.weights, strict=True)}
    last, first = {p: nodes[3 * i + 2] for i, p in enumerate("Sab")}, {p: nodes[3 * i] for i, p in enumerate("Sab")}
    leaving = 0.5  # every state lasts two frames
    assert weights[nodes[3], nodes[3]] == weights[nodes[3], nodes[4]] == leaving
    assert weights[last["a"], first["b"]] == pytest.approx(leaving * 2 / 3)  # a: twice before b, once last
    assert float(graph.ends[last["a"]]) == pytest.approx(leaving * 1 / 3)
    assert weights[last["b"], first["a"]] == pytest.approx(leaving / 2)
    assert (last["b"], first["b"]) not in weights
    assert [float(graph.starts[first[p]]) for p in "Sab"] == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("order", [2, 3, 4])
def test_probabilities_sum_to_one_and_training_paths_are_in_the_graph(order):
    hmm = monophone_hmm(phones=["SIL", "a", "b"], silence=["SIL"], num_silence_states=5)
    sentences = [["a", "b", "a", "b", "b"], ["b", "a"], ["a", "a", "a"]]
    paths = [transition_ids(hmm, phones) for phones in sentences]
    graph = phone_graph(hmm, paths, order=order)
    out = graph.ends.clone().index_add_(0, graph.sources, graph.weights)
    torch.testing.assert_close(out, torch.ones(graph.num_nodes, dtype=torch.float64))
    assert float(graph.starts.sum()) == pytest.approx(1)
    for ids in paths:
        scores = torch.full((1, len(ids), hmm.num_pdfs), -torch.inf)
        scores[0, torch.arange(len(ids)), torch.from_numpy(hmm.table.pdf[ids]).long()] = 0.0
        assert torch.isfinite(log_partition(graph, scores, torch.tensor([len(ids)])))


def test_a_higher_order_remembers_the_phone_before():
    hmm = monophone_hmm(phones=["a", "b", "c"], num_states=1)
    sentences = [["a", "b", "a"], ["c", "b", "c"]]  # after a b always a, after c b always c
    graphs = {
        order: phone_graph(hmm, [transition_ids(hmm, phones, lasting=1) for phones in sentences], order=order)
        for order in (2, 3)
    }
    unseen = torch.full((1, 3, 3), -torch.inf)
    unseen[0, torch.arange(3), torch.tensor([0, 1, 2])] = 0.0  # a b c
    assert float(log_partition(graphs[2], unseen, torch.tensor([3]))) > -5
    with pytest.raises(ValueError, match="no path"):
        log_partition(graphs[3], unseen, torch.tensor([3]))


def test_a_unigram_is_no_sequence():
    with pytest.raises(ValueError, match="order must be at least 2"):
        phone_graph(monophone_hmm(phones=["a"]), [], order=1)
    with pytest.raises(ValueError, match="paths must hold the alignment of at least one utterance"):
        phone_graph(monophone_hmm(phones=["a"]), [[]], order=2)


def test_labels_must_fit_the_logits():
    logits, lengths = torch.zeros(1, T, S), torch.tensor([T])
    with pytest.raises(ValueError, match=r"labels must be \[1, 5\] for these logits, got \[1, 4\]"):
        mmi(made_graph(), logits, torch.zeros(1, T - 1).long(), lengths, log_priors=torch.zeros(S), acoustic_weight=1.0)
