"""Training by the MMI objective: one step by hand, gains on speech it has not seen, and what it leaves alone."""

import copy

import pytest
import torch
from torch import Generator, nn

from bochner.acoustic.sequence import LabelledFrames, SequenceRecipe, StateGraph, mmi, occupancies, train_sequence
from bochner.features import FourierMap
from bochner.kernels import Gaussian
from bochner.models.heads import FeatureModel, LinearHead

S, D = 4, 3
NO_PRIORS = torch.zeros(S)


def chain() -> StateGraph:
    """Four states in a ring that stay with 0.7."""
    dense = 0.7 * torch.eye(S, dtype=torch.float64) + 0.3 * torch.eye(S, dtype=torch.float64).roll(1, dims=1)
    sources, targets = dense.nonzero(as_tuple=True)
    same = torch.full((S,), 1 / S, dtype=torch.float64)
    return StateGraph(torch.arange(S), same, torch.ones_like(same), sources, targets, dense[sources, targets])


def speak(count: int, *, seed: int) -> list[LabelledFrames]:
    """Paths of the chain in noise that lasts eight frames: they say less together than one by one."""
    G, places = Generator().manual_seed(seed), torch.eye(S)[:, :D]
    said = []
    for _ in range(count):
        moves = (torch.rand(24, generator=G) > 0.7).long()
        labels = (moves.cumsum(0) + torch.randint(S, (1,), generator=G)) % S
        noise = 0.6 * torch.randn(3, D, generator=G).repeat_interleave(8, dim=0)
        length = int(torch.randint(8, 25, (1,), generator=G))
        said.append(LabelledFrames((places[labels] + noise)[:length], labels[:length]))
    return said


def trained_on_frames(said: list[LabelledFrames]) -> LinearHead:
    """The minimum of cross-entropy, by plain descent."""
    head = LinearHead.zeros(num_features=D, num_outputs=S)
    X, y = (torch.cat(column) for column in zip(*said, strict=True))
    for _ in range(300):
        head.zero_grad()
        nn.functional.cross_entropy(head(X), y).backward()
        with torch.no_grad():
            for p in head.parameters():
                p -= 1.0 * p.grad
    return head


def total_mmi(model: nn.Module, said: list[LabelledFrames], weight: float) -> float:
    settings = {"log_priors": NO_PRIORS, "acoustic_weight": weight}
    found = [
        mmi(chain(), model(one.frames)[None], one.labels[None], torch.tensor([len(one.labels)]), **settings)
        for one in said
    ]
    return float(torch.cat(found).sum().detach())


def test_a_step_goes_along_aligned_minus_expected_states():
    (said,), head = speak(1, seed=0), LinearHead.zeros(num_features=D, num_outputs=S)
    head.weights.data.normal_(generator=Generator().manual_seed(1))
    before, T = head.weights.detach().clone(), len(said.labels)
    expected = occupancies(chain(), 0.3 * head(said.frames)[None], torch.tensor([T]))[0].float()
    errors = nn.functional.one_hot(said.labels, S) - expected
    recipe = SequenceRecipe(
        preconditioner_rank=0, acoustic_weight=0.3, frame_weight=0.0, learning_rate=0.1, max_epochs=1
    )
    train_sequence(head, [said], [said], chain(), recipe, log_priors=NO_PRIORS)
    torch.testing.assert_close(head.weights.detach() - before, 0.1 * errors.T @ said.frames / T)


def test_cross_entropy_alone_is_what_the_frame_weight_adds():
    (said,), head = speak(1, seed=0), LinearHead.zeros(num_features=D, num_outputs=S)
    steps = {}
    for weight in (0.0, 2.0):
        model = copy.deepcopy(head)
        recipe = SequenceRecipe(preconditioner_rank=0, frame_weight=weight, learning_rate=0.01, max_epochs=1)
        train_sequence(model, [said], [said], chain(), recipe, log_priors=NO_PRIORS)
        steps[weight] = model.bias.detach()
    frames = 0.01 * 2.0 * (nn.functional.one_hot(said.labels, S) - 1 / S).float().mean(dim=0)
    torch.testing.assert_close(steps[2.0] - steps[0.0], frames)


@pytest.mark.parametrize("seed", range(3))
def test_it_gains_on_unseen_speech_over_the_best_frame_classifier(seed):
    train, heldout, test = (speak(40, seed=100 * seed + place) for place in range(3))
    head = trained_on_frames(train)
    before = total_mmi(head, test, 3.0)
    recipe = SequenceRecipe(
        preconditioner_rank=0, acoustic_weight=3.0, frame_weight=0.0, learning_rate=2.0, max_epochs=6
    )
    train_sequence(head, train, heldout, chain(), recipe, log_priors=NO_PRIORS)
    assert total_mmi(head, test, 3.0) - before > 0.1 * sum(len(one.labels) for one in test)


def test_no_epoch_that_loses_is_kept():
    """A rate far too large: every epoch is undone, and the model leaves as it came."""
    train, heldout = speak(8, seed=0), speak(4, seed=1)
    head = trained_on_frames(train)
    before = copy.deepcopy(head.state_dict())
    recipe = SequenceRecipe(preconditioner_rank=0, learning_rate=1e6, max_halvings=2)
    history = train_sequence(head, train, heldout, chain(), recipe, log_priors=NO_PRIORS)
    assert [record.get("decision") for record in history] == [None, "revert and halve", "revert and halve"]
    torch.testing.assert_close(head.state_dict(), before, rtol=0, atol=0)


def test_the_map_stays_and_main_directions_are_evened_out():
    train, heldout = speak(30, seed=0), speak(10, seed=1)
    z = FourierMap.draw(Gaussian(bandwidth=2.0), num_inputs=D, num_features=32, generator=Generator().manual_seed(0))
    gains, frequencies = {}, z.frequencies().clone()
    for preconditioner_rank in (0, 4):
        model = FeatureModel(z, LinearHead.zeros(num_features=32, num_outputs=S))
        recipe = SequenceRecipe(learning_rate=4.0, preconditioner_rank=preconditioner_rank, max_epochs=2, seed=3)
        history = train_sequence(model, train, heldout, chain(), recipe, log_priors=NO_PRIORS)
        gains[preconditioner_rank] = history[0]["loss"] - history[-1]["loss"]
    assert gains[4] != gains[0]
    assert min(gains.values()) > 0
    torch.testing.assert_close(model.feature_map.frequencies(), frequencies, rtol=0, atol=0)


def test_the_seed_decides_the_order():
    train, heldout = speak(24, seed=0), speak(4, seed=1)

    def run(seed):
        head = LinearHead.zeros(num_features=D, num_outputs=S)
        recipe = SequenceRecipe(preconditioner_rank=0, learning_rate=2.0, max_epochs=2, batch_utterances=4, seed=seed)
        train_sequence(head, train, heldout, chain(), recipe, log_priors=NO_PRIORS)
        return head.weights.detach()

    assert torch.equal(run(0), run(0))
    assert not torch.equal(run(0), run(1))


def test_the_defaults_suit_a_head_on_features():
    train, heldout = speak(30, seed=0), speak(10, seed=1)
    z = FourierMap.draw(Gaussian(bandwidth=2.0), num_inputs=D, num_features=32, generator=Generator().manual_seed(0))
    model = FeatureModel(z, LinearHead.zeros(num_features=32, num_outputs=S))
    history = train_sequence(model, train, heldout, chain(), SequenceRecipe(max_epochs=2), log_priors=NO_PRIORS)
    assert history[1]["decision"] == "go on"


def test_errors_say_what_is_wrong():
    recipe = SequenceRecipe(preconditioner_rank=0, learning_rate=1.0)
    with pytest.raises(ValueError, match="heldout must hold at least one utterance each, got none"):
        train_sequence(nn.Linear(D, S), speak(1, seed=0), [], chain(), recipe, log_priors=NO_PRIORS)
    with pytest.raises(ValueError, match="learning_rate must be a number with preconditioner_rank=0, got 'auto'"):
        SequenceRecipe(preconditioner_rank=0)
    with pytest.raises(ValueError, match="preconditioner_rank must be 0 without a head on features"):
        train_sequence(nn.Linear(D, S), speak(1, seed=0), [], chain(), SequenceRecipe(), log_priors=NO_PRIORS)
