"""A recipe: all that decides what `bochner asr run` does, as typed settings that YAML can hold."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from bochner import checks
from bochner.acoustic.ablation import AblationSizes, ablation
from bochner.acoustic.corpora import KINDS as CORPORA
from bochner.acoustic.corpora import Corpus
from bochner.acoustic.settings import KINDS as MODELS
from bochner.acoustic.settings import ModelSettings, kind_of
from bochner.acoustic.typed import check_known, fitted, typed
from bochner.plain_yaml import read_yaml

SUFFIX = ".yaml"
SOURCE = "corpus.source"
Sequenced = bool | Literal["kernel", "network", "both"]


@dataclass(frozen=True, kw_only=True)
class FrontendSettings:
    """`cepstra` made of recordings (a corpus that gives frames keeps them); `context` neighbours on each side.

    Models also learn from train's recordings played at other `speeds`, where there are recordings.
    """

    cepstra: Literal["mfcc", "plp"] = "mfcc"
    context: int = 5
    speeds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.nonnegative_int("frontend.context", self.context)
        for speed in self.speeds:
            checks.positive_float("frontend.speeds", speed)


@dataclass(frozen=True, kw_only=True)
class AlignmentSettings:
    """The GMM whose states the models learn, see `bochner speech align`."""

    until: Literal["monophone", "triphone", "lda_mllt", "sat"] = "sat"
    start: Literal["equal", "known", "kept"] = "equal"
    num_leaves: int | None = None
    num_gaussians: int | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """The language model is an n-gram of the texts of train; `order` is n."""

    order: int = 2
    beam: float = 11.0
    max_active: int = 2500

    def __post_init__(self) -> None:
        checks.positive_int("decoding.order", self.order)
        checks.positive_float("decoding.beam", self.beam)
        checks.positive_int("decoding.max_active", self.max_active)


@dataclass(frozen=True, kw_only=True)
class AsrRecipe:
    """Corpus, front end, alignment, models, decoding; each model is trained once for each of `seeds`.

    `realign` trains the chosen kernel model and the chosen network once more, on states that they aligned themselves;
    `sequence` trains the chosen kernel model (also by the word true), the chosen network or both further by whole
    utterances (lattice-free MMI); `combine` also decodes with the two averaged.
    """

    name: str
    corpus: Corpus
    models: Mapping[str, ModelSettings]
    about: str = ""
    frontend: FrontendSettings = field(default_factory=FrontendSettings)
    alignment: AlignmentSettings = field(default_factory=AlignmentSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    realign: bool = False
    sequence: Sequenced = False
    combine: bool = True
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("models must name at least one model, got none.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be at least one number, each once, got {list(self.seeds)}.")
        if missing := sorted(set(self.sequenced) - {kind_of(one) for one in self.models.values()}):
            raise ValueError(f"sequence must train what models has, got {self.sequence!r} but no {missing[0]} model.")

    @property
    def sequenced(self) -> list[str]:
        """The kinds of models that are trained by utterances."""
        words = {"kernel": (True, "kernel", "both"), "network": ("network", "both")}
        return [kind for kind, asked in words.items() if self.sequence in asked]

    def plain(self) -> dict[str, Any]:
        """Values for JSON, and for YAML that `load_recipe` reads again."""
        kinds = {made: kind for kind, made in CORPORA.items()}
        stored = {key: value for key, value in dataclasses.asdict(self).items() if key not in ("corpus", "models")}
        corpus = {"kind": kinds[type(self.corpus)], **dataclasses.asdict(self.corpus)}
        models = {name: {"kind": kind_of(one), **dataclasses.asdict(one)} for name, one in self.models.items()}
        return _jsonable({**stored, "corpus": corpus, "models": models})


def recipe_names() -> list[str]:
    return sorted(one.name.removesuffix(SUFFIX) for one in _shelf().iterdir() if one.name.endswith(SUFFIX))


def recipe_lines() -> dict[str, str]:
    """What each recipe is for."""
    return {name: _read(name)["about"] for name in recipe_names()}


def load_recipe(recipe: str | os.PathLike[str], *, changes: Mapping[str, object] | None = None) -> AsrRecipe:
    """A named recipe, or one in a YAML file; `changes` are values by their path, "models.kernel.num_features".

    A recipe that says `like: OTHER` is the other with its own values put in: mappings are joined, but a mapping that
    says its `kind` stands alone, and a model that is null is left out.

    >>> recipe = load_recipe("timit-like", changes={"models.gaussian.num_features": 1024, "seeds": [0, 1]})
    >>> recipe.models["gaussian"].num_features, recipe.seeds
    (1024, (0, 1))
    >>> load_recipe("timit-like", changes={"models.gaussian.num_feature": 1024})
    Traceback (most recent call last):
    ...
    ValueError: timit-like: models.gaussian.num_feature is unknown; models.gaussian takes ...
    """
    values = _read(recipe)
    for path, value in (changes or {}).items():
        _put(values, path, value)
    if isinstance(values.get("corpus"), Mapping) and values["corpus"].get("source", "") is None:
        raise ValueError(f"{recipe} needs its corpus: give --source PATH, or {SOURCE} in the recipe.")
    try:
        return _recipe(Path(recipe).stem, values)
    except ValueError as error:
        raise ValueError(f"{recipe}: {error}") from error


def _recipe(name: str, values: dict[str, Any]) -> AsrRecipe:
    blocks = {"frontend": FrontendSettings, "alignment": AlignmentSettings, "decoding": DecodingSettings}
    plain = {"about": str, "realign": bool, "sequence": Sequenced, "combine": bool, "seeds": tuple[int, ...]}
    check_known(values, [*plain, *blocks, "corpus", "models", "ablation"], key="")
    settings: dict[str, Any] = {key: typed(kind, values[key], key=key) for key, kind in blocks.items() if key in values}
    settings |= {key: fitted(hint, values[key], key) for key, hint in plain.items() if key in values}
    sizes = typed(AblationSizes, values.get("ablation", {}), key="ablation")
    models = _models(values.get("models", {}), sizes)
    return AsrRecipe(name=name, corpus=_of_kind(CORPORA, values.get("corpus"), "corpus"), models=models, **settings)


def _models(values: object, sizes: AblationSizes) -> dict[str, ModelSettings]:
    if values == "ablation":
        return ablation(sizes)
    if not isinstance(values, Mapping):
        raise ValueError(f"models must be settings by name, or the word ablation, got {values!r}.")
    if strange := [name for name in values if not isinstance(name, str)]:
        raise ValueError(f"models must have names of text, got {strange[0]!r}; put it in quotes.")
    made = {name: _of_kind(MODELS, one, f"models.{name}") for name, one in values.items() if one is not None}
    return {name: dataclasses.replace(one, name=one.name or name) for name, one in made.items()}


def _of_kind(kinds: Mapping[str, Any], values: object, key: str) -> Any:
    if not isinstance(values, Mapping) or "kind" not in values:
        raise ValueError(f"{key} must be a mapping that says its kind, one of {', '.join(kinds)}, got {values!r}.")
    checks.one_of(f"{key}.kind", values["kind"], kinds)
    return typed(kinds[values["kind"]], {name: one for name, one in values.items() if name != "kind"}, key=key)


def _read(recipe: str | os.PathLike[str], *, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """The settings of a recipe joined with those it is like; `above` are the recipes that led here."""
    if str(recipe) in above:
        raise ValueError(f"that leads back to {recipe}.")
    values = _parsed(recipe)
    if "like" not in values:
        return values
    other = _beside(recipe, str(values.pop("like")))
    try:
        return _joined(_read(other, above=(*above, str(recipe))), values)
    except (ValueError, OSError) as error:
        raise ValueError(f"{recipe} cannot be like {other}: {error}") from error


def _beside(recipe: str | os.PathLike[str], other: str) -> str | Path:
    """The recipe that `like` names: a file is meant from where the recipe lies."""
    return Path(recipe).parent / other if other.endswith(SUFFIX) else other


def _parsed(recipe: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(recipe)
    if path.suffix != SUFFIX and str(recipe) not in recipe_names():
        raise ValueError(f"recipe must be a {SUFFIX} file or one of {', '.join(recipe_names())}, got {str(recipe)!r}.")
    try:
        text = (path if path.suffix == SUFFIX else _shelf() / f"{recipe}{SUFFIX}").read_text(encoding="utf-8")
        values = read_yaml(text)
    except ValueError as error:
        raise ValueError(f"{recipe} is not YAML of settings: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{recipe} must hold settings by name, got {values!r}.")
    return values


def _joined(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    joined = dict(below)
    for key, value in above.items():
        old = joined.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and "kind" not in value:
            value = _joined(old, value)
        joined[key] = value
    return joined


def _put(values: dict[str, Any], path: str, value: object) -> None:
    *above, last = path.split(".")
    for name in above:
        below = values.setdefault(name, {})
        if not isinstance(below, dict):
            raise ValueError(f"{path} cannot be set: {name} is {below!r}.")
        values = below
    values[last] = value


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _jsonable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _shelf() -> Any:
    return files("bochner.acoustic") / "recipes"
