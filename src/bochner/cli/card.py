"""What a model is, what it learned from and how good it is: for programs as JSON, for people as a page."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bochner import __version__
from bochner.cli.folder import Options
from bochner.cli.parts import Parts
from bochner.cli.scoring import Metrics
from bochner.data.blocks import num_rows

Card = dict[str, Any]
PACKAGES = ["torch", "numpy", "scikit-learn", "safetensors"]


def make_card(model: Any, parts: Parts, options: Options, metrics: Metrics) -> Card:
    """All of it as plain values; the same run makes the same card."""
    return {
        "model": {
            "kind": type(model).__name__,
            "solver": model.solver_,
            "kernel": repr(model.kernel_),
            "num_inputs": model.n_features_in_,
            "classes": model.classes_.tolist() if hasattr(model, "classes_") else None,
        },
        "data": {
            "sha256": {str(path): checksum(path) for path in _files(options)},
            "rows_learned": num_rows(parts.learned),
            "rows_heldout": num_rows(parts.judged),
            "heldout": parts.protocol,
        },
        "heldout_metrics": dict(metrics),
        "seed": options["random_state"],
        "settings": {name: value for name, value in options.items() if value is not None},
        "versions": {"bochner": __version__, "python": platform.python_version()}
        | {name: version(name) for name in PACKAGES},
    }


def checksum(path: Path) -> str:
    """SHA-256 of a file as sha256sum gives it; of a folder, that of a line "CHECKSUM  NAME" for every file in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a").write_bytes(b"abc")
    ...     checksum(Path(folder, "a"))[:16], checksum(Path(folder))[:16]
    ('ba7816bf8f01cfea', '60eb527cba799edb')
    """
    if not path.is_dir():
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    files = sorted(file for file in path.rglob("*") if file.is_file())
    lines = (f"{checksum(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def card_page(card: Card) -> str:
    """The card in Markdown."""
    model, data = card["model"], card["data"]
    inputs = f"{model['num_inputs']:,} inputs" + (f", {len(model['classes']):,} classes" if model["classes"] else "")
    return "\n".join(
        [
            f"# {model['kind']}\n",
            f"{inputs}; kernel `{model['kernel']}`, solver `{model['solver']}`, seed {card['seed']}.\n",
            f"Learned from {data['rows_learned']:,} rows; judged by {data['heldout']}. Those were never trained on, "
            "but used for choices such as when to stop: expect a little less of new rows.\n",
            *_table("heldout", "value", {name: f"{value:.6g}" for name, value in card["heldout_metrics"].items()}),
            *_table("data", "SHA-256", data["sha256"]),
            *_table("setting", "value", card["settings"]),
            *_table("package", "version", card["versions"]),
        ]
    )


def _table(first: str, second: str, rows: Mapping[str, Any]) -> list[str]:
    lines = [f"| {name} | {str(value).replace('|', chr(92) + '|')} |" for name, value in rows.items()]
    return [f"| {first} | {second} |", "|---|---|", *lines, ""]


def _files(options: Options) -> list[Path]:
    """The files that the rows came from: a target or weight may be one of its own."""
    named = (Path(str(options[name])) for name in ("target", "weight") if options.get(name) is not None)
    own = [path for path in named if path.suffix == ".npy" and path.is_file()]
    return [Path(options["data"]), *([Path(options["heldout"])] if options.get("heldout") else []), *own]
