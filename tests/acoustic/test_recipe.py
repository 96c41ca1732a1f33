"""Recipes: valid and invalid YAML, and properties of the recipes included in bochner."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml

from bochner.acoustic.recipe import AsrRecipe, load_recipe, parse_model, recipe_descriptions, recipe_names
from bochner.acoustic.settings import KernelSettings, NetworkSettings
from bochner.models.network import Network
from bochner.search import NetworkPlan, SelectionParams

TWINS = {"timit": "timit-like", "broadcast": "broadcast-like", "cantonese": "cantonese-like", "bengali": "bengali-like"}
SMALL = {
    "corpus": {"kind": "synthetic", "language": "english", "hours": 0.1},
    "models": {"kernel": {"kind": "kernel", "num_features": 512}},
}


def loaded(name: str) -> AsrRecipe:
    needs_source = "--source" in recipe_descriptions()[name]
    return load_recipe(name, overrides={"corpus.source": "somewhere"} if needs_source else None)


def written(directory: Path, values: dict[str, object]) -> Path:
    path = directory / "mine.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_loads_and_compares_kernels_with_networks(name: str) -> None:
    recipe = loaded(name)
    kinds = {type(model) for model in recipe.models.values()}
    assert kinds == {KernelSettings, NetworkSettings}
    assert recipe.name == name
    assert recipe.about


def test_yesno_has_fewer_states_than_a_bottleneck() -> None:
    """Three phones of three states: a model that inherits a rank of 100 could not be trained."""
    assert {model.rank for model in loaded("yesno").models.values()} == {None}


@pytest.mark.parametrize("name", TWINS)
def test_a_licensed_corpus_differs_from_its_synthetic_twin_in_the_corpus_only(name: str) -> None:
    licensed, synthetic = loaded(name).to_dict(), loaded(TWINS[name]).to_dict()
    differing = {key for key in licensed if licensed[key] != synthetic[key]}
    assert differing == {"name", "about", "corpus"}


@pytest.mark.parametrize("name", ["timit-sample", "broadcast-like"])
def test_plain_values_of_a_recipe_are_read_again(name: str, tmp_path: Path) -> None:
    recipe = loaded(name)
    values = {key: value for key, value in recipe.to_dict().items() if key != "name"}
    assert load_recipe(written(tmp_path, values)).to_dict() == {**recipe.to_dict(), "name": "mine"}


def test_like_merges_settings_and_leaves_out_null_models(tmp_path: Path) -> None:
    written(tmp_path, {**SMALL, "decoding": {"order": 3, "beam": 9}})
    child = tmp_path / "child.yaml"
    child.write_text(
        "like: mine.yaml\ncorpus: {hours: 0.2}\ndecoding: {order: 4}\n"
        "models: {kernel: null, network: {kind: network, hidden: [8]}}\n"
    )
    recipe = load_recipe(child)
    assert recipe.corpus.hours == 0.2  # type: ignore[union-attr]
    assert recipe.corpus.language == "english"  # type: ignore[union-attr]
    assert (recipe.decoding.order, recipe.decoding.beam) == (4, 9.0)
    assert recipe.models == {"network": NetworkSettings(name="network", hidden=(8,))}


def test_a_corpus_of_another_kind_replaces_all_settings(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    child = tmp_path / "child.yaml"
    child.write_text("like: mine.yaml\ncorpus: {kind: yesno, source: there}\n")
    assert load_recipe(child).to_dict()["corpus"] == {"kind": "yesno", "source": "there", "seed": 0}


def test_numbers_may_be_written_in_scientific_notation(tmp_path: Path) -> None:
    model = {"kind": "kernel", "learning_rate": "1e-1", "bandwidth": 3, "selection": {"rounds": 5}}
    settings = load_recipe(written(tmp_path, {**SMALL, "models": {"k": model}})).models["k"]
    assert settings == KernelSettings(name="k", learning_rate=0.1, bandwidth=3.0, selection=SelectionParams(rounds=5))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("decodings", {}, "decodings is unknown; a recipe has about, .*models, "),
        ("decoding.beams", 9, "decoding.beams is unknown; decoding has order, beam, max_active."),
        ("models.kernel.selection", {"round": 5}, "models.kernel.selection.round is unknown; .* has method, rounds"),
        (
            "models.kernel.kernel",
            "linear",
            "models.kernel: kernel must be one of .*'laplacian'.*, got 'linear'",
        ),
        ("models.kernel.num_features", 10.5, "models.kernel.num_features must be of type int .*, got 10.5"),
        ("models.kernel.num_features", True, "models.kernel.num_features must be of type int .*, got True"),
        ("models.kernel.kind", "tree", r"models.kernel.kind must be one of \['kernel', 'network'\], got 'tree'"),
        ("models.other", 3, "models.other must be a mapping with a kind, one of kernel, network, got 3"),
        ("models.kernel", None, "models must name at least one model"),
        ("models.kernel.name", None, "models.kernel.name must be of type str, got None"),
        ("models.kernel.rank", 10**400, "models.kernel.rank must be finite, got 1000"),
        ("models.kernel.selection", "os.system", "models.kernel.selection must be a mapping .*got 'os.system'"),
        ("models.kernel.selection", {"class_path": "os.system"}, "models.kernel.selection.class_path is unknown"),
        ("models.kernel", {"class_path": "os.system"}, "models.kernel.class_path is unknown"),
        ("models", "grid", "models must be a mapping .* or the word ablation, got 'grid'"),
        ("corpus.snr", [1, 2, 3], r"corpus.snr must be of type tuple\[float, float\], got \[1, 2, 3\]"),
        ("corpus.kind", "radio", "corpus.kind must be one of .*'directory'.*, got 'radio'"),
        ("corpus", {"kind": "an4"}, "corpus: .*required: source"),
        ("corpus", {"kind": "an4", "source": None}, "corpus is missing: give --source PATH"),
        ("combine", "maybe", "combine must be of type bool, got 'maybe'"),
        ("sequence", "all", "sequence must be of type bool .*'kernel', 'network', 'both'.*, got 'all'"),
        ("sequence", "both", "sequence must .*, got 'both' but no network model"),
        ("models.kernel.adapt", "rb", "models.kernel.adapt must be .*'agop', 'uab', 'sab', 'dab'.*, got 'rb'"),
        ("seeds", [0, 0], r"seeds must be .*, got \[0, 0\]"),
        ("seeds.first", 1, "seeds must be of type .*, got {'first': 1}"),
    ],
)
def test_invalid_values_are_named(path: str, value: object, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, {**SMALL, "seeds": [0]})
    with pytest.raises(ValueError, match=message):
        load_recipe(file, overrides={path: value})


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"one of an4, .*, yesno, got 'timid'"):
        load_recipe("timid")


def test_the_ablation_is_the_papers_grid() -> None:
    recipe = load_recipe("timit-like", overrides={"models": "ablation", "ablation.num_features": 64})
    kernels = [model for model in recipe.models.values() if isinstance(model, KernelSettings)]
    networks = [model for model in recipe.models.values() if isinstance(model, NetworkSettings)]
    cells = {(model.kernel, model.selection is None, model.rank is None, model.criterion) for model in kernels}
    assert len(cells) == len(kernels) == 3 * 2 * 2 * 2
    assert {model.num_features for model in kernels} == {64}
    assert len({(model.hidden, model.rank, model.criterion) for model in networks}) == len(networks) == 3 * 2 * 2
    assert all(name == model.name for name, model in recipe.models.items())


def test_blocks_and_other_kernels_are_settings_of_a_recipe(tmp_path: Path) -> None:
    model = {"kind": "kernel", "kernel": "arc-cosine1", "num_features": 64, "num_blocks": 4}
    settings = load_recipe(written(tmp_path, {**SMALL, "models": {"k": model}})).models["k"]
    assert isinstance(settings, KernelSettings)
    assert (settings.kernel, settings.num_blocks, settings.plan().params.num_blocks) == ("arc-cosine1", 4, 4)


def test_no_value_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jsonargparse would import the class named by a value for a class, so it must never get such a value."""
    (tmp_path / "hostile_module.py").write_text("from pathlib import Path\nPath('imported').touch()\nclass X: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, SMALL)
    for value in ("hostile_module.X", {"class_path": "hostile_module.X"}):
        for path in ("frontend", "models.kernel.selection", "models.kernel.rank", "corpus.language", "seeds", "models"):
            with pytest.raises(ValueError, match=r"mine\.yaml"):
                load_recipe(file, overrides={path: value})
    assert not (tmp_path / "imported").exists()


def test_a_protocol_sets_what_a_model_does_not(tmp_path: Path) -> None:
    models = {
        "kernel": {"kind": "kernel", "num_features": 512},
        "averaged": {"kind": "kernel", "num_features": 512, "average": True},
        "network": {"kind": "network", "hidden": [8, 8]},
        "gelu": {"kind": "network", "hidden": [8, 8], "activation": "gelu", "improvement": 0.05},
    }
    file = written(tmp_path, {**SMALL, "models": models})
    modern, papers = load_recipe(file), load_recipe(file, overrides={"protocol": "papers"})
    assert modern.protocol == modern.to_dict()["protocol"] == "modern"
    assert modern.models["kernel"] == KernelSettings(name="kernel", num_features=512)
    assert modern.models["network"] == NetworkSettings(name="network", hidden=(8, 8))
    plans = {name: settings.plan() for name, settings in papers.models.items()}
    for name, plan in plans.items():
        assert (plan.params.max_halvings, plan.params.schedule, plan.params.optimizer) == (10, "halving", "sgd")
        assert plan.params.improvement == (0.05 if name == "gelu" else 0.01)
        assert plan.params.preconditioner_rank == 0
        assert plan.params.average == (name == "averaged")
    for name, activation in (("network", "tanh"), ("gelu", "gelu")):
        plan = plans[name]
        assert isinstance(plan, NetworkPlan)
        assert (plan.activation, plan.pretrain, plan.batch_norm, plan.dropout) == (activation, True, False, 0.0)
        assert (plan.residual, plan.alpha, plan.params.learning_rate) == (False, 0.0, "auto")
    with pytest.raises(ValueError, match=r"protocol must be one of \['modern', 'papers'\], got 'old'"):
        load_recipe(file, overrides={"protocol": "old"})


def test_features_trained_with_their_head_have_one_short_cycle() -> None:
    for given, epochs in (({}, 6), ({"max_epochs": 9}, 9)):
        settings = parse_model({"kind": "kernel", "num_features": 512, "adapt": "dab", **given}, "modern", 4)
        params = settings.plan().params
        assert (params.max_epochs, params.learning_rate) == (epochs, 1e-3)
        assert (params.optimizer, params.schedule, params.preconditioner_rank) == ("adamw", "one-cycle", 0)
        assert settings.plan().bandwidth is None  # the median rule, without trials
    assert parse_model({"kind": "kernel", "adapt": "agop"}, "modern", 4).max_epochs == 60


def test_the_ablation_follows_the_protocol() -> None:
    recipe = load_recipe("timit-like", overrides={"models": "ablation", "protocol": "papers"})
    assert {model.max_halvings for model in recipe.models.values()} == {10}
    assert {model.average for model in recipe.models.values()} == {False}


def test_the_reference_network_can_be_stated(tmp_path: Path) -> None:
    """Four layers of 256 ReLU units, batch normalisation, dropout 0.2, AdamW 2e-3 with decay 0.01, 15 epochs."""
    model = {"kind": "network", "hidden": [256] * 4, "residual": False}
    plan = load_recipe(written(tmp_path, {**SMALL, "models": {"n": model}})).models["n"].plan()
    assert isinstance(plan, NetworkPlan)
    assert (plan.activation, plan.batch_norm, plan.dropout, plan.alpha, plan.pretrain) == (
        "relu",
        True,
        0.2,
        0.01,
        False,
    )
    params = plan.params
    assert (params.optimizer, params.learning_rate, params.schedule) == ("adamw", 2e-3, "one-cycle")
    assert (params.batch_size, params.max_epochs, params.rank) == (256, 15, None)


def test_dilations_must_cover_the_context(tmp_path: Path) -> None:
    models = {"tdnn": {"kind": "network", "hidden": [8, 8, 8], "dilations": [1, 2]}}
    file = written(tmp_path, {**SMALL, "models": models})
    assert load_recipe(file, overrides={"frontend.context": 3}).models["tdnn"].title == "tdnn"
    with pytest.raises(ValueError, match=r"models.tdnn.dilations must sum to frontend.context, 5, got \[1, 2\]"):
        load_recipe(file)


def test_convolutional_kernels_cover_the_context(tmp_path: Path) -> None:
    model = {"kind": "kernel", "num_features": 64, "adapt": "dab", "dilations": "auto", "width": 32}
    file = written(tmp_path, {**SMALL, "models": {"kernel": model}})
    settings = load_recipe(file, overrides={"frontend.context": 4}).models["kernel"]
    adapt = settings.plan().adapt  # type: ignore[union-attr]
    assert (adapt.method, adapt.dilations, adapt.width) == ("dab", (1, 3), 32)
    with pytest.raises(ValueError, match=r"models.kernel.dilations must sum to frontend.context, 5, got \[1\]"):
        load_recipe(file, overrides={"models.kernel.dilations": [1]})


def test_the_papers_timit_can_be_stated() -> None:
    recipe = loaded("timit-papers")
    assert (recipe.protocol, recipe.frontend.frame_shift, recipe.frontend.context) == ("papers", 0.005, 5)
    assert (recipe.alignment.context_width, recipe.corpus.phones) == (1, 49)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="frame_shift must be"):
        load_recipe("timit-like", overrides={"frontend.frame_shift": 0.0})
    with pytest.raises(ValueError, match=r"alignment.context_width must be of type .*1, 3, 5.*, got 2"):
        load_recipe("timit-like", overrides={"alignment.context_width": 2})


@pytest.mark.parametrize("context", range(12))
def test_automatic_dilations_reach_every_frame_of_the_context(context: int, tmp_path: Path) -> None:
    model = {"kind": "network", "hidden": [4] * 6, "dilations": "auto"}
    file = written(tmp_path, {**SMALL, "models": {"tdnn": model}})
    dilations = load_recipe(file, overrides={"frontend.context": context}).models["tdnn"].dilations  # type: ignore[union-attr]
    assert sum(dilations) == context
    network = Network.draw(
        num_inputs=1 + 2 * context,
        hidden=[4] * 6,
        num_outputs=2,
        dilations=dilations,
        generator=torch.Generator().manual_seed(0),
    )
    X = torch.zeros(1, 1 + 2 * context, requires_grad=True)
    network(X).sum().backward()
    assert X.grad is not None
    assert (X.grad != 0).all()
