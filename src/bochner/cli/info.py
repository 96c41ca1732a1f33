"""`bochner info`: what a model file holds."""

from __future__ import annotations

from pathlib import Path

from bochner.cli.models import load_model, model_file
from bochner.cli.rows import names_of
from bochner.data.labels import shown


def info(model: Path) -> None:
    """Show what is in a model: its kind, kernel, inputs, classes and settings.

    Example:

        bochner info out/iris

    Args:
        model: The folder that `bochner train` made, or a model file in it.
    """
    loaded, file = load_model(model, device="cpu"), model_file(model)
    names = names_of(loaded)
    lines = {
        "file": f"{file}, {file.stat().st_size / 2**20:,.1f} MiB",
        "kind": f"{type(loaded).__name__}, {type(loaded.model_).__name__}, solver {loaded.solver_}",
        "kernel": repr(loaded.kernel_),
        "inputs": f"{loaded.n_features_in_:,}{'' if names is None else ': ' + shown(names)}",
    }
    if hasattr(loaded, "classes_"):
        lines["classes"] = f"{len(loaded.classes_):,}: {shown(loaded.classes_.tolist())}"
    defaults = type(loaded)().get_params(deep=False)
    given = {name: value for name, value in loaded.get_params(deep=False).items() if name != "device"}
    changed = [f"{name}={value!r}" for name, value in given.items() if value != defaults[name]]
    lines["settings"] = ", ".join(changed) or "the defaults"
    for name, text in lines.items():
        print(f"{name:<9} {text}")
