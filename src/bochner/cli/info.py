"""`bochner info`, and the model card that `bochner train` writes with a model."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from bochner import __version__
from bochner.cli.evaluate import Scorer
from bochner.cli.logs import labelled
from bochner.cli.tables import Split
from bochner.cli.train_directory import Options, data_checksums, load_model, model_file
from bochner.data.blocks import num_rows
from bochner.data.labels import abbreviated
from bochner.estimators.base import TRANSFORM_NAMES
from bochner.estimators.inputs import feature_names
from bochner.remote import is_url, local_path

PACKAGES = ["torch", "numpy", "scikit-learn", "safetensors"]


def info(model: str) -> None:
    """Describe a model file: the estimator, its kernel, inputs, classes and settings.

    Example:

        bochner info out/iris_csv

    Args:
        model: The output directory of `bochner train`, or a model file.
    """
    path = local_path(model)
    estimator, file = load_model(path, device="cpu"), model_file(path)
    names = feature_names(estimator)
    fields = {
        "file": f"{model if is_url(model) else file}, {file.stat().st_size / 2**20:,.1f} MiB",
        "model": f"{type(estimator).__name__}, {type(estimator.model_).__name__}, solver {estimator.solver_}",
        **architecture(estimator),
        "inputs": f"{estimator.n_features_in_:,}{'' if names is None else ': ' + abbreviated(names)}",
    }
    if hasattr(estimator, "classes_"):
        fields["classes"] = f"{len(estimator.classes_):,}: {abbreviated(estimator.classes_.tolist())}"
    defaults = settings_of(type(estimator)())
    changed = [f"{name}={value!r}" for name, value in settings_of(estimator).items() if value != defaults[name]]
    fields["settings"] = ", ".join(changed) or "the defaults"
    for label, text in fields.items():
        print(labelled(label, text))


def settings_of(estimator: Any) -> dict[str, Any]:
    """Arguments of an estimator and options of its solver, without those of progress bars and checkpoints."""
    settings = estimator.get_params(deep=False) | asdict(estimator.make_plan().params)
    return {name: settings[name] for name in settings if name not in ("solver_params", "verbose", "checkpoint_dir")}


def architecture(estimator: Any) -> dict[str, str]:
    """The kernel of a kernel model, and how it was searched, or the hidden layers of a network."""
    if hasattr(estimator, "kernel_"):
        searched = {"search": search_text(estimator)} if estimator.search_results_ else {}
        return {"kernel": repr(estimator.kernel_), **searched}
    return {"network": f"hidden layers {list(estimator.hidden)}, {estimator.activation}"}


def search_text(estimator: Any) -> str:
    """The choices of a search, in one line."""
    chosen = estimator.choices_
    parts = [f"inputs {TRANSFORM_NAMES[chosen['transform']]}"]
    if chosen["rounds"]:
        parts.append(f"{chosen['metric']} metric of {chosen['rounds']} round{'' if chosen['rounds'] == 1 else 's'}")
    parts.append(f"penalty {chosen['penalty']:.3g}")
    if chosen["members"] > 1:
        parts.append(f"mean of {chosen['members']} models")
    return f"{', '.join(parts)}; {len(estimator.search_results_)} trials, loss {chosen['loss']:.4g}"


# -- the model card --------------------------------------------------------------------------------------------


def model_card(model: Any, split: Split, options: Options, scorer: Scorer, *, use: str) -> dict[str, Any]:
    """The description of a model, its data and its scores, as plain values; equal for equal runs.

    `use` describes the use of the validation rows.
    """
    return {
        "model": {
            "estimator": type(model).__name__,
            "solver": model.solver_,
            **architecture(model),
            "num_inputs": model.n_features_in_,
            "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        },
        "data": {
            "sha256": data_checksums(options),
            "training_rows": num_rows(split.training),
            "validation_rows": scorer.num_rows,
            "validation_protocol": split.protocol,
            "validation_use": use,
        },
        "validation_scores": scorer.scores(),
        "validation_intervals": {name: list(ends) for name, ends in scorer.intervals().items()},
        "seed": options["random_state"],
        "settings": {name: value for name, value in options.items() if value is not None},
        "versions": {"bochner": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }


def card_page(card: Mapping[str, Any]) -> str:
    """A model card in Markdown."""
    model, data = card["model"], card["data"]
    architecture_name = "kernel" if "kernel" in model else "network"
    ends = card["validation_intervals"]
    shown = {
        name: f"{value:.6g} ({ends[name][0]:.4g} to {ends[name][1]:.4g})"
        for name, value in card["validation_scores"].items()
    }
    inputs = f"{model['num_inputs']:,} inputs" + (f", {len(model['classes']):,} classes" if model["classes"] else "")
    return "\n".join(
        [
            f"# {model['estimator']}\n",
            f"{inputs}; {architecture_name} `{model[architecture_name]}`, solver `{model['solver']}`, "
            f"seed {card['seed']}.\n",
            f"Trained on {data['training_rows']:,} rows. Validation: {data['validation_protocol']}; "
            f"{data['validation_use']}.\n",
            *_table("validation", "score (95 % interval)", shown),
            *_table("data", "SHA-256", data["sha256"]),
            *_table("setting", "value", card["settings"]),
            *_table("package", "version", card["versions"]),
        ]
    )


def _table(first: str, second: str, rows: Mapping[str, Any]) -> list[str]:
    lines = [f"| {name} | {str(value).replace('|', chr(92) + '|')} |" for name, value in rows.items()]
    return [f"| {first} | {second} |", "|---|---|", *lines, ""]
