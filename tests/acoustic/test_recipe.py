"""Recipes: what YAML may say, what is refused, and what the recipes that come with bochner have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from bochner.acoustic.recipe import AsrRecipe, load_recipe, recipe_lines, recipe_names
from bochner.acoustic.settings import KernelSettings, NetworkSettings, SelectionSettings

TWINS = {"timit": "timit-like", "broadcast": "broadcast-like", "cantonese": "cantonese-like", "bengali": "bengali-like"}
SMALL = {
    "corpus": {"kind": "synthetic", "language": "english", "hours": 0.1},
    "models": {"kernel": {"kind": "kernel", "num_features": 512}},
}


def loaded(name: str) -> AsrRecipe:
    needs_source = "--source" in recipe_lines()[name]
    return load_recipe(name, changes={"corpus.source": "somewhere"} if needs_source else None)


def written(folder: Path, values: dict[str, object]) -> Path:
    path = folder / "mine.yaml"
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
    """Three phones of three states: whoever inherits a rank of 100 cannot be trained."""
    assert {model.rank for model in loaded("yesno").models.values()} == {None}


@pytest.mark.parametrize("name", TWINS)
def test_a_licensed_corpus_differs_from_its_synthetic_twin_in_the_corpus_only(name: str) -> None:
    licensed, synthetic = loaded(name).plain(), loaded(TWINS[name]).plain()
    differing = {key for key in licensed if licensed[key] != synthetic[key]}
    assert differing == {"name", "about", "corpus"}


@pytest.mark.parametrize("name", ["timit-sample", "broadcast-like"])
def test_what_a_recipe_says_plainly_is_a_recipe_again(name: str, tmp_path: Path) -> None:
    recipe = loaded(name)
    values = {key: value for key, value in recipe.plain().items() if key != "name"}
    assert load_recipe(written(tmp_path, values)).plain() == {**recipe.plain(), "name": "mine"}


def test_like_joins_settings_and_leaves_out_what_is_null(tmp_path: Path) -> None:
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


def test_a_corpus_of_another_kind_keeps_nothing_of_the_one_below(tmp_path: Path) -> None:
    written(tmp_path, SMALL)
    child = tmp_path / "child.yaml"
    child.write_text("like: mine.yaml\ncorpus: {kind: yesno, source: there}\n")
    assert load_recipe(child).plain()["corpus"] == {"kind": "yesno", "source": "there", "seed": 0}


def test_numbers_may_be_written_as_people_write_them(tmp_path: Path) -> None:
    model = {"kind": "kernel", "learning_rate": "1e-1", "bandwidth": 3, "selection": {"rounds": 5}}
    found = load_recipe(written(tmp_path, {**SMALL, "models": {"k": model}})).models["k"]
    assert found == KernelSettings(name="k", learning_rate=0.1, bandwidth=3.0, selection=SelectionSettings(rounds=5))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("decodings", {}, "decodings is unknown; a recipe takes about, "),
        ("decoding.beams", 9, "decoding.beams is unknown; decoding takes order, beam, max_active."),
        ("models.kernel.selection", {"round": 5}, "models.kernel.selection.round is unknown; .* takes rounds"),
        (
            "models.kernel.kernel",
            "linear",
            "models.kernel.kernel must be 'laplacian' or 'gaussian' or .*, got 'linear'",
        ),
        ("models.kernel.num_features", 10.5, "models.kernel.num_features must be an integer, got 10.5"),
        ("models.kernel.num_features", True, "models.kernel.num_features must be a"),
        ("models.kernel.kind", "tree", r"models.kernel.kind must be one of \['kernel', 'network'\], got 'tree'"),
        ("models.other", 3, "models.other must be a mapping that says its kind, one of kernel, network"),
        ("models", {}, "models must name at least one model"),
        ("models", "grid", "models must be settings by name, or the word ablation, got 'grid'"),
        ("corpus.snr", [1, 2, 3], r"corpus.snr must be a list of 2, got \[1, 2, 3\]"),
        ("corpus.kind", "radio", "corpus.kind must be one of .*'directory'.*, got 'radio'"),
        ("corpus", {"kind": "an4"}, "corpus.source is missing"),
        ("corpus", {"kind": "an4", "source": None}, "needs its corpus: give --source PATH"),
        ("combine", "yes", "combine must be true or false, got 'yes'"),
        ("sequence", "all", "sequence must be 'kernel' or 'network' or 'both', got 'all'"),
        ("sequence", "both", "sequence must train what models has, got 'both' but no network model"),
        ("models.kernel.adapt", "rb", "models.kernel.adapt must be 'agop' or 'uab' or 'sab' or 'dab', got 'rb'"),
        ("seeds", [0, 0], r"seeds must be at least one number, each once, got \[0, 0\]"),
        ("seeds.first", 1, "seeds.first cannot be set: seeds is"),
    ],
)
def test_what_does_not_fit_is_named(path: str, value: object, message: str, tmp_path: Path) -> None:
    file = written(tmp_path, {**SMALL, "seeds": [0]})
    with pytest.raises(ValueError, match=message):
        load_recipe(file, changes={path: value})


def test_a_name_that_is_no_recipe_lists_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"one of an4, .*, yesno, got 'timid'"):
        load_recipe("timid")


def test_the_ablation_is_the_papers_grid() -> None:
    recipe = load_recipe("timit-like", changes={"models": "ablation", "ablation.num_features": 64})
    kernels = [model for model in recipe.models.values() if isinstance(model, KernelSettings)]
    networks = [model for model in recipe.models.values() if isinstance(model, NetworkSettings)]
    found = {(one.kernel, one.selection is None, one.rank is None, one.metric) for one in kernels}
    assert len(found) == len(kernels) == 3 * 2 * 2 * 2
    assert {one.num_features for one in kernels} == {64}
    assert len({(one.hidden, one.rank, one.metric) for one in networks}) == len(networks) == 3 * 2 * 2
    assert all(name == model.name for name, model in recipe.models.items())
