"""The recipe of an experiment: typed settings that are read from a YAML file by jsonargparse."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from jsonargparse import ArgumentError, ArgumentParser

from bochner import checks
from bochner.acoustic.corpora import KINDS as CORPORA
from bochner.acoustic.corpora import Corpus
from bochner.acoustic.settings import (
    JOINT_EPOCHS,
    PROTOCOLS,
    AblationSizes,
    KernelSettings,
    ModelSettings,
    ablation,
    dilations_for,
    kind_of,
)
from bochner.acoustic.settings import KINDS as MODELS
from bochner.plain_yaml import read_yaml

SUFFIX = ".yaml"
SOURCE = "corpus.source"
OWN_PARSING = ("corpus", "models", "ablation")  # parsed by `_parse_recipe` itself
Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class FrontendSettings:
    """`cepstra` of recordings (a corpus of frames keeps its own), spliced with `context` frames on each side.

    Frames of 25 ms start every `frame_shift` seconds: 0.01, or 0.005 as in the papers for TIMIT. Models are also
    trained on the recordings of train at other `speeds`, if there are recordings; with `alone`, also on each recording
    of train normalised by itself and without speaker adaptation, as in the transcription of a single recording, and at
    the speeds 0.9 and 1.1 if most of them last less than 5 s; the decoding weights of single recordings are then tuned
    on dev as such.
    With `pitch`, cepstra are extended by pitch and voicing, which distinguish tones.
    """

    cepstra: Literal["mfcc", "plp"] = "mfcc"
    context: int = 5
    frame_shift: float = 0.01
    speeds: tuple[float, ...] = ()
    alone: bool = False
    pitch: bool = False

    def __post_init__(self) -> None:
        checks.nonnegative_int("context", self.context)
        checks.positive_float("frame_shift", self.frame_shift)
        for speed in self.speeds:
            checks.positive_float("speeds", speed)


@dataclass(frozen=True, kw_only=True)
class AlignmentSettings:
    """The GMM whose states are the targets of the models, see `bochner speech align`.

    States depend on `context_width` phones: 1 for context-independent states, three per phone; 3 for triphones; 5 for
    quinphones. With `shared_roots`, phones whose names differ only in digits at the end share a root of the tree.
    """

    until: Literal["monophone", "triphone", "lda_mllt", "sat"] = "sat"
    start: Literal["equal", "known", "kept"] = "equal"
    context_width: Literal[1, 3, 5] = 3
    shared_roots: bool = False
    num_leaves: int | None = None
    num_gaussians: int | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class DecodingSettings:
    """Beam search with an n-gram language model of train's transcripts; `order` is n.

    With `pronunciation_probabilities`, the pronunciations of a word have their probabilities in the alignment of train.
    """

    order: int = 2
    beam: float = 11.0
    max_active: int = 2500
    pronunciation_probabilities: bool = False

    def __post_init__(self) -> None:
        checks.positive_int("order", self.order)
        checks.positive_float("beam", self.beam)
        checks.positive_int("max_active", self.max_active)


@dataclass(frozen=True, kw_only=True)
class AsrRecipe:
    """Corpus, front end, alignment, models and decoding of an experiment; each model is trained once per seed.

    `protocol` sets the defaults of all models: "modern", or "papers" for their optimizer, schedule and networks (see
    `bochner.acoustic.settings.PROTOCOLS`); a key of a model overrides it.
    `realign` trains the chosen kernel model and the chosen network again, on states from their own alignments.
    `sequence` trains the chosen kernel model (also true), the chosen network or both further by the sequence objective
    (lattice-free MMI). `ensemble` also decodes with the average of all kernel models, and with that of all networks.
    `combine` also decodes with the average of the chosen kernel model and network, and with each of the chosen models
    and the GMM together.
    """

    name: str
    corpus: Corpus
    models: Mapping[str, ModelSettings]
    about: str = ""
    protocol: Literal["modern", "papers"] = "modern"
    frontend: FrontendSettings = field(default_factory=FrontendSettings)
    alignment: AlignmentSettings = field(default_factory=AlignmentSettings)
    decoding: DecodingSettings = field(default_factory=DecodingSettings)
    realign: bool = False
    sequence: bool | Literal["kernel", "network", "both"] = False
    ensemble: bool = False
    combine: bool = True
    seeds: tuple[int, ...] = (0,)

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("models must name at least one model, got none.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must be distinct, at least one, got {list(self.seeds)}.")
        if missing := sorted(set(self.sequence_kinds) - {kind_of(settings) for settings in self.models.values()}):
            raise ValueError(f"sequence must name a kind of `models`, got {self.sequence!r} but no {missing[0]} model.")
        for name, settings in self.models.items():
            if "kernel" in self.sequence_kinds and isinstance(settings, KernelSettings) and settings.num_blocks > 1:
                raise ValueError(f"models.{name}.num_blocks must be 1 with sequence, got {settings.num_blocks}.")
            dilations = getattr(settings, "dilations", ())
            if dilations and sum(dilations) != self.frontend.context:
                raise ValueError(
                    f"models.{name}.dilations must sum to frontend.context, {self.frontend.context}, "
                    f"got {list(dilations)}."
                )

    @property
    def sequence_kinds(self) -> list[str]:
        """The kinds of models that are trained by the sequence objective."""
        values = {"kernel": (True, "kernel", "both"), "network": ("network", "both")}
        return [kind for kind, accepted in values.items() if self.sequence in accepted]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON or YAML, which `load_recipe` reads again."""
        corpus_kind = next(kind for kind, cls in CORPORA.items() if type(self.corpus) is cls)
        values = dataclasses.asdict(self)
        values["corpus"] = {"kind": corpus_kind, **values["corpus"]}
        values["models"] = {name: {"kind": kind_of(self.models[name]), **v} for name, v in values["models"].items()}
        return _jsonable(values)


def recipe_names() -> list[str]:
    """Names of the recipes that are part of bochner."""
    return sorted(path.name.removesuffix(SUFFIX) for path in _recipe_dir().iterdir() if path.name.endswith(SUFFIX))


def recipe_descriptions() -> dict[str, str]:
    """Descriptions of the recipes by name."""
    return {name: _read(name)["about"] for name in recipe_names()}


def load_recipe(recipe: str | os.PathLike[str], *, overrides: Mapping[str, object] | None = None) -> AsrRecipe:
    """Load a named recipe or a YAML file; `overrides` are values by path, such as "models.kernel.num_features".

    A recipe with `like: OTHER` starts from the other one. Its own mappings are merged into those of the other, but a
    mapping with a `kind` replaces the other's, and a model that is null is left out. Overrides are merged in the same
    way.

    >>> recipe = load_recipe("timit-like", overrides={"models.gaussian.num_features": 1024, "seeds": [0, 1]})
    >>> recipe.models["gaussian"].num_features, recipe.seeds
    (1024, (0, 1))
    >>> load_recipe("timit-like", overrides={"models.gaussian.num_feature": 1024})
    Traceback (most recent call last):
    ...
    ValueError: timit-like: models.gaussian.num_feature is unknown; models.gaussian has name, rank, ...
    """
    values = _read(recipe)
    for path, value in (overrides or {}).items():
        for name in reversed(path.split(".")):
            value = {name: value}
        values = _merged(values, value)  # type: ignore[arg-type]
    try:
        return _parse_recipe(Path(recipe).stem, values)
    except ValueError as error:
        raise ValueError(f"{recipe}: {error}") from error


def _parse_recipe(name: str, values: Mapping[str, Any]) -> AsrRecipe:
    corpus = values.get("corpus")
    if isinstance(corpus, Mapping) and corpus.get("source", "") is None:
        raise ValueError(f"the path of the corpus is missing: give --source PATH, or {SOURCE} in the recipe.")
    rest = {key: value for key, value in values.items() if key not in OWN_PARSING}
    sizes = parse_settings(AblationSizes, values.get("ablation", {}), key="ablation")
    protocol = values.get("protocol", "modern")
    checks.one_of("protocol", protocol, PROTOCOLS)
    frontend = parse_settings(FrontendSettings, values.get("frontend", {}), key="frontend")
    models = _parse_models(values.get("models", {}), sizes, protocol, frontend.context)
    return parse_settings(AsrRecipe, rest, name=name, corpus=_parse_kind(CORPORA, corpus, "corpus"), models=models)


def _parse_models(values: object, sizes: AblationSizes, protocol: str, context: int) -> dict[str, ModelSettings]:
    if values == "ablation":
        return ablation(sizes, protocol)
    if not isinstance(values, Mapping):
        raise ValueError(f"models must be a mapping of names to settings, or the word ablation, got {values!r}.")
    if strange := [name for name in values if not isinstance(name, str)]:
        raise ValueError(f"the names of models must be text, got {strange[0]!r}; put it in quotes.")
    models = {
        name: parse_model(model, protocol, context, key=f"models.{name}")
        for name, model in values.items()
        if model is not None
    }
    return {name: dataclasses.replace(model, name=model.name or name) for name, model in models.items()}


def parse_model(values: object, protocol: str, context: int, *, key: str = "model") -> ModelSettings:
    """The settings of one model with the defaults of a protocol; `context` is that of the front end.

    >>> parse_model({"kind": "network", "hidden": [8, 8]}, "papers", 5).activation
    'tanh'
    """
    defaults = PROTOCOLS[protocol]
    if isinstance(values, Mapping) and values.get("adapt") == "dab":  # one cycle, which does not end earlier
        defaults = {**defaults, "kernel": {**defaults["kernel"], "max_epochs": JOINT_EPOCHS}}
    model: ModelSettings = _parse_kind(MODELS, _with_dilations(values, context), key, defaults)
    return model


def _with_dilations(values: object, context: int) -> object:
    """The settings of a model with `dilations: auto` replaced by dilations that cover the context of the front end."""
    if not isinstance(values, Mapping) or values.get("dilations") != "auto":
        return values
    return {**values, "dilations": list(dilations_for(context))}


def _parse_kind(
    kinds: Mapping[str, Any], values: object, key: str, defaults: Mapping[str, Mapping[str, Any]] | None = None
) -> Any:
    """Settings of the class that the entry `kind` names; `defaults` are those of each kind."""
    if not isinstance(values, Mapping) or "kind" not in values:
        raise ValueError(f"{key} must be a mapping with a kind, one of {', '.join(kinds)}, got {values!r}.")
    checks.one_of(f"{key}.kind", values["kind"], kinds)
    own = {name: value for name, value in values.items() if name != "kind"}
    return parse_settings(kinds[values["kind"]], {**(defaults or {}).get(values["kind"], {}), **own}, key=key)


def parse_settings(cls: type[Settings], values: object, *, key: str = "", **parsed: Any) -> Settings:
    """An instance of the dataclass `cls` with the plain `values` of YAML; errors name the value by its path from `key`.

    jsonargparse converts and checks each value by the type hint of its field. For a dataclass it would import whatever
    a value names (class_path), so it never gets one: fields that are dataclasses are parsed by separate calls, or given
    as instances, in `parsed`.

    >>> parse_settings(DecodingSettings, {"beam": "9"}, key="decoding").beam
    9.0
    >>> parse_settings(DecodingSettings, {"order": 2.5}, key="decoding")
    Traceback (most recent call last):
    ...
    ValueError: decoding.order must be of type int, got 2.5.
    """
    prefix = f"{key}." if key else ""
    types = {item.name: item.type for item in fields(cls) if item.name not in parsed}  # type: ignore[arg-type]
    if not isinstance(values, Mapping):
        raise ValueError(f"{key} must be a mapping of {', '.join(types)}, got {values!r}.")
    if unknown := [name for name in values if name not in types]:
        known = ", ".join(types if key else [*types, *OWN_PARSING, "like"])
        raise ValueError(f"{prefix}{unknown[0]} is unknown; {key or 'a recipe'} has {known}.")
    inner: dict[str, Any] = {
        name: part
        for name, hint in get_type_hints(cls).items()
        for part in (hint, *get_args(hint))
        if is_dataclass(part)
    }
    for name in inner.keys() & values.keys():
        if values[name] is not None:  # null is the default
            parsed[name] = parse_settings(inner[name], values[name], key=f"{prefix}{name}")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(cls, skip={*inner, *parsed})
    try:
        namespace = parser.parse_object({name: value for name, value in values.items() if name not in inner})
    except ArgumentError as error:
        if match := re.match(r'Parser key "(\w+)', str(error)):
            raise ValueError(_mistake(prefix, match[1], types, values)) from error
        raise ValueError(f"{key}: {error}.") from error
    for name, value in vars(namespace).items():  # jsonargparse accepts null for any type
        if value is None and "None" not in str(types[name]):
            raise ValueError(_mistake(prefix, name, types, values))
        if not _is_finite(value):
            raise ValueError(f"{prefix}{name} must be finite, got {values[name]!r}.")
    try:
        return cls(**vars(namespace), **parsed)
    except ValueError as error:
        raise ValueError(f"{key}: {error}" if key else str(error)) from error


def _mistake(prefix: str, name: str, types: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    return f"{prefix}{name} must be of type {types[name]}, got {values[name]!r}."


def _is_finite(value: object) -> bool:
    """Whether every number in `value` is finite."""
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, int | float) or abs(value) < sys.float_info.max


def _read(recipe: str | os.PathLike[str], *, children: tuple[str, ...] = ()) -> dict[str, Any]:
    """The values of a recipe merged into those of the one it is based on; `children` are the recipes based on it."""
    if str(recipe) in children:
        raise ValueError(f"{recipe} must not be `like` itself.")
    values = _parse_yaml(recipe)
    if "like" not in values:
        return values
    base = str(values.pop("like"))
    path = Path(recipe).parent / base if base.endswith(SUFFIX) else base
    try:
        return _merged(_read(path, children=(*children, str(recipe))), values)
    except (ValueError, OSError) as error:
        raise ValueError(f"{recipe} cannot be like {path}: {error}") from error


def _parse_yaml(recipe: str | os.PathLike[str]) -> dict[str, Any]:
    path = Path(recipe)
    if path.suffix != SUFFIX and str(recipe) not in recipe_names():
        raise ValueError(f"recipe must be a {SUFFIX} file or one of {', '.join(recipe_names())}, got {str(recipe)!r}.")
    try:
        text = (path if path.suffix == SUFFIX else _recipe_dir() / f"{recipe}{SUFFIX}").read_text(encoding="utf-8")
        values = read_yaml(text)
    except ValueError as error:
        raise ValueError(f"{recipe} is not a YAML file of settings: {error}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{recipe} must be a mapping of settings, got {values!r}.")
    return values


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping) and "kind" not in value:
            value = _merged(old, value)
        merged[key] = value
    return merged


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _recipe_dir() -> Any:
    return files("bochner.acoustic") / "recipes"
