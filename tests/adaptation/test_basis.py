"""Adapted maps: better than before, of the same type, and otherwise unchanged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

import bochner
from bochner.adaptation import BasisSettings, adapt, alignment, fit_basis
from bochner.adaptation.basis import kernel_error
from bochner.data import ArraySource
from bochner.features import ArcCosineMap, FourierMap, NystromMap
from bochner.kernels import ArcCosine, Gaussian
from bochner.models.heads import FeatureModel, LinearHead
from bochner.solvers.step import evaluate
from tests.adaptation.families import FAMILIES, FOURIER, draw, points, rows

QUICK = BasisSettings(batches=60, validation_batches=10, max_epochs=2, learning_rate=0.02)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_gains_by_every_objective(family: str) -> None:
    z, train, heldout = draw(family), rows(), rows(400, seed=1)
    before = {name: p.clone() for name, p in z.named_parameters()}
    for objective, share in {"kernel": 0.85, "alignment": 0.97, "loss": 0.8}.items():
        found = fit_basis(z, train, objective=objective, validation_data=heldout, settings=QUICK, verbose=False)
        assert type(found.feature_map) is type(z)
        assert min(record["validation"] for record in found.history) < share * found.history[0]["validation"]
        after = dict(found.feature_map.named_parameters())
        changed = {name for name in after if not torch.equal(after[name], before[name])}
        assert changed == set(z.adaptable())
        assert not any(p.requires_grad for p in after.values())
    assert all(torch.equal(p, before[name]) for name, p in z.named_parameters())


def test_only_diagonals_of_structured_maps_adapt() -> None:
    names = {family: draw(family).adaptable() for family in FAMILIES}
    assert names["hadamard1"] == names["hadamard2"] == ["projection.diagonals"]
    assert names["hadamard3"] == ["projection.diagonals", "phases"]
    assert sorted(names["fastfood"]) == sorted(names["circulant"]) == ["projection.normals", "projection.signs"]
    assert names["sparse gaussian"] == ["projection.values"]
    assert names["arc-cosine 3"] == ["weights.0", "weights.1", "weights.2"]


def test_objectives_improve_on_new_rows() -> None:
    X, y = points(500, seed=7)
    new, z = ArraySource(X, y), draw("orthogonal cosine")
    settings = BasisSettings(batches=300, validation_batches=10, max_epochs=2, learning_rate=0.02)
    kernel, aligned = (
        adapt(z, rows(2000), objective=o, settings=settings, verbose=False) for o in ("kernel", "alignment")
    )
    errors = {name: float(kernel_error(basis(X), z.kernel(X))) for name, basis in {"rb": z, "uab": kernel}.items()}
    assert errors["uab"] < errors["rb"] / 4
    assert alignment(aligned, new) > alignment(z, new) + 0.2 > alignment(kernel, new) + 0.1


def test_the_joint_head_belongs_to_the_adapted_map() -> None:
    heldout = rows(400, seed=1)
    settings = BasisSettings(max_epochs=3)
    found = fit_basis(
        draw("orthogonal"), rows(), objective="loss", validation_data=heldout, settings=settings, verbose=False
    )
    assert found.head is not None
    best = min(record["validation"] for record in found.history)
    scores = evaluate(FeatureModel(found.feature_map, found.head), heldout, loss="softmax").summary()
    assert scores["ce"] == pytest.approx(best, rel=1e-5)


def test_the_best_epoch_is_returned_not_the_last() -> None:
    wild = BasisSettings(batches=20, validation_batches=10, max_epochs=6, learning_rate=0.8, decay=1.0)
    heldout = rows(300, seed=1)
    found = fit_basis(draw("orthogonal"), rows(), validation_data=heldout, settings=wild, verbose=False)
    values = [record["validation"] for record in found.history]
    assert values[-1] > min(values)
    again = fit_basis(found.feature_map, rows(), validation_data=heldout, settings=wild, verbose=False).history[0][
        "validation"
    ]
    assert again == pytest.approx(min(values), rel=1e-5)
    assert [record["improved"] for record in found.history] == [
        value < min(values[:place], default=torch.inf) for place, value in enumerate(values)
    ]


def test_adaptation_ends_when_patience_does() -> None:
    settings = BasisSettings(batches=5, validation_batches=5, learning_rate=1e-12, patience=2)
    still = fit_basis(draw("orthogonal"), rows(), settings=settings, verbose=False)  # steps too small for float32
    assert [record["improved"] for record in still.history] == [True, False, False]
    assert len({record["validation"] for record in still.history}) == 1  # every epoch is evaluated on the same batches
    assert BasisSettings().patience_for(draw("orthogonal")) == BasisSettings().patience_for(draw("arc-cosine 1")) == 10
    assert all(
        BasisSettings().patience_for(draw(name)) == 20 for name in FOURIER if name.startswith(("had", "fast", "circ"))
    )


def test_rates_fall_after_an_epoch_without_improvement() -> None:
    moved = {}
    for decay in (1.0, 1e-9):
        settings = BasisSettings(batches=20, validation_batches=10, max_epochs=6, learning_rate=0.8, decay=decay)
        found = fit_basis(
            draw("orthogonal"), rows(), validation_data=rows(300, seed=1), settings=settings, verbose=False
        )
        moved[decay] = [record["validation"] for record in found.history][-2:]
    assert moved[1.0][0] != moved[1.0][1]
    assert moved[1e-9][0] == pytest.approx(moved[1e-9][1], rel=1e-6)


def test_same_plan_same_map_and_other_seeds_other_maps() -> None:
    def adapted(seed: int) -> torch.Tensor:
        settings = BasisSettings(batches=20, validation_batches=5, max_epochs=2, seed=seed)
        z = adapt(draw("orthogonal"), rows(), settings=settings, verbose=False)
        assert isinstance(z, FourierMap)
        return z.frequencies()

    assert torch.equal(adapted(0), adapted(0))
    assert not torch.equal(adapted(0), adapted(1))


def test_a_step_has_the_same_effect_at_every_bandwidth() -> None:
    X, y = points(600)
    settings, values = BasisSettings(batches=50, validation_batches=10, max_epochs=2, learning_rate=0.01), []
    for scale in (1.0, 64.0):
        z = FourierMap.draw(
            Gaussian(bandwidth=2.0 * scale), num_inputs=6, num_features=16, generator=torch.Generator().manual_seed(0)
        )
        history = fit_basis(z, ArraySource(scale * X, y), objective="loss", settings=settings, verbose=False).history
        values.append([record["validation"] for record in history])
    assert values[0] == pytest.approx(values[1], rel=1e-3)


def test_larger_batches_reach_the_same() -> None:
    train, heldout = rows(4000), rows(1000, seed=1)
    lowest = []
    for batch_size, batches, rate in ((64, 200, 0.01), (256, 50, 0.02)):
        settings = BasisSettings(
            batch_size=batch_size, batches=batches, validation_batches=10, max_epochs=4, learning_rate=rate
        )
        found = fit_basis(draw("orthogonal cosine"), train, validation_data=heldout, settings=settings, verbose=False)
        X = heldout.read(0).X
        lowest.append(float(kernel_error(found.feature_map(X), found.feature_map.kernel(X))))
    assert 0.7 < lowest[0] / lowest[1] < 1.4


@pytest.mark.parametrize("family", ["hadamard2", "sparse gaussian", "arc-cosine 2"])
def test_adapted_maps_are_stored_and_streamed_like_any_other(family: str, tmp_path: Path) -> None:
    settings = BasisSettings(batches=20, validation_batches=5, max_epochs=1)
    z = adapt(draw(family), rows(), settings=settings, verbose=False)
    bochner.save(z, tmp_path / "map.safetensors")
    X, _ = points(50)
    assert torch.equal(bochner.load(tmp_path / "map.safetensors")(X), z(X))
    with torch.no_grad():
        torch.testing.assert_close(z._features(X), z(X), atol=1e-5, rtol=1e-4)
    if isinstance(z, FourierMap):
        assert z.take(torch.tensor([1, 3])).num_frequencies == 2


def test_other_losses_and_heads() -> None:
    X, y = points(400)
    settings = BasisSettings(batches=50, max_epochs=2, loss="squared")
    found = fit_basis(draw("orthogonal"), ArraySource(X, X[:, :2]), objective="loss", settings=settings, verbose=False)
    assert isinstance(found.head, LinearHead)
    assert found.head.weights.shape == (2, 24)
    start = LinearHead.zeros(num_features=24, num_outputs=1)
    settings = BasisSettings(batches=50, max_epochs=2, loss="logistic")
    found = fit_basis(
        draw("orthogonal"), ArraySource(X, y % 2), objective="loss", head=start, settings=settings, verbose=False
    )
    assert found.history[-1]["validation"] < found.history[0]["validation"]
    assert not start.weights.any()  # the given head is only the starting point


def test_callbacks_see_every_record() -> None:
    seen: list[dict[str, object]] = []
    settings = BasisSettings(batches=5, validation_batches=5, max_epochs=2)
    found = fit_basis(draw("orthogonal"), rows(), settings=settings, verbose=False, callbacks=[seen.append])
    assert seen == found.history
    assert [record["epoch"] for record in seen] == [0, 1, 2]


def test_bad_arguments() -> None:
    X, _ = points(100)
    z, floats = draw("orthogonal"), ArraySource(X, X[:, 0])
    with pytest.raises(ValueError, match=r"objective must be one of \['kernel', 'alignment', 'loss'\], got 'error'"):
        adapt(z, rows(), objective="error")
    with pytest.raises(ValueError, match="objective='alignment' needs class indices"):
        adapt(z, floats, objective="alignment", settings=QUICK, verbose=False)
    with pytest.raises(ValueError, match="head must be None with objective='kernel'"):
        fit_basis(z, rows(), head=LinearHead.zeros(num_features=24, num_outputs=4))
    nystrom = NystromMap.fit(Gaussian(), X, num_landmarks=5, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="feature_map must have parameters to adapt"):
        adapt(nystrom, rows())
    steps = ArcCosineMap(ArcCosine(order=0), [torch.eye(6)])
    with pytest.raises(ValueError, match="ArcCosineMap of order 1 or 2"):
        adapt(steps, rows())
    with pytest.raises(FloatingPointError, match="give a smaller learning_rate"):
        adapt(
            draw("arc-cosine 3"),
            rows(),
            settings=BasisSettings(batches=5, validation_batches=5, learning_rate=1e30),
            verbose=False,
        )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"batch_size": 1}, "batch_size must be at least 2"),
        ({"batches": 0}, "batches must be an integer of at least 1"),
        ({"learning_rate": 0.0}, "learning_rate must be a positive"),
        ({"decay": 1.5}, "decay must be at most 1"),
        ({"loss": "hinge"}, "loss must be one of"),
        ({"seed": -1}, "seed must be an integer of at least 0"),
    ],
)
def test_bad_plans(setting: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BasisSettings(**setting)  # type: ignore[arg-type]


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("objective", ["alignment", "loss"])
def test_stopped_after_an_epoch_it_resumes_bit_equal(objective: str, tmp_path: Path) -> None:
    settings = BasisSettings(batches=20, validation_batches=5, max_epochs=5, learning_rate=0.2)
    z, options = draw("orthogonal"), {"objective": objective, "settings": settings, "verbose": False}
    whole = fit_basis(z, rows(), **options)

    def stop(record: dict) -> None:
        if record["epoch"] == 4:  # the checkpoint is that of epoch 3
            raise StoppedError

    with pytest.raises(StoppedError):
        fit_basis(z, rows(), **options, checkpoint_dir=tmp_path, callbacks=[stop])
    seen: list[dict] = []
    resumed = fit_basis(z, rows(), **options, checkpoint_dir=tmp_path, callbacks=[seen.append])
    assert [record["epoch"] for record in seen] == [4, 5]
    assert str(resumed.history) == str(whole.history)
    assert torch.equal(resumed.feature_map.frequencies(), whole.feature_map.frequencies())
    other = replace(settings, seed=1)
    with pytest.raises(ValueError, match=r"another configuration .*seed: 0 .*1"):
        fit_basis(z, rows(), objective=objective, settings=other, verbose=False, checkpoint_dir=tmp_path)
