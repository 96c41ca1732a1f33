"""`bochner speech models`: the pre-trained models of `bochner align`."""

from __future__ import annotations

import logging
from pathlib import Path

from bochner.checks import one_of
from bochner.cli.logs import labelled

logger = logging.getLogger(__name__)


def list_models() -> None:
    """List the pre-trained models included in the package.

    Examples:

        bochner speech models list
    """
    from bochner.speech import pretrained

    for name in pretrained.list_models():
        about = pretrained.describe_model(name)
        print(labelled(name, f"{about['language']}: {about['description']}"))


def show(name: str) -> None:
    """Show the description, source and licence of a model.

    Examples:

        bochner speech models show en

    Args:
        name: The name of a model, or the directory of one.
    """
    from bochner.speech import pretrained

    about, directory = pretrained.describe_model(name), pretrained.model_directory(name)
    for key in ("name", "language", "description", "source", "licence"):
        print(labelled(key, about[key]))
    print(labelled("phones", " ".join(about["phones"])))
    print(labelled("words", f"{about['words']:,}"))
    if "source" in about.get("boundary_offsets", ()):
        print(labelled("offsets", about["boundary_offsets"]["source"]))
    size = sum((directory / file).stat().st_size for file in about["files"])
    print(labelled("size", f"{size / 1e6:.1f} MB in {directory}"))


def verify(name: str) -> None:
    """Compare the files of a model with the SHA-256 that its description holds.

    Examples:

        bochner speech models verify en

    Args:
        name: The name of a model, or the directory of one.
    """
    from bochner.speech import pretrained

    intact = pretrained.verify_model(name)
    for file, equal in intact.items():
        print(labelled("ok" if equal else "differs", file))
    if damaged := [file for file, equal in intact.items() if not equal]:
        raise ValueError(f"the model {name!r} is damaged ({', '.join(damaged)}); install bochner again.")


def build(name: str, output_dir: Path, *, source: Path | None = None, hours: float = 0.5, seed: int = 0) -> None:
    """Build a model for `bochner align --model`.

    Examples:

        bochner speech models build en models/en --source pocketsphinx/model/en-us
        bochner speech models build yue models/yue
        bochner align recordings --model models/yue

    "en" is a conversion of PocketSphinx's en-us model, which its licence (BSD) allows to redistribute: the densities of
    its context-independent states, and its dictionary. "yue" (Cantonese) and "bn" (Bengali) are trained on synthetic
    speech of espeak-ng, which takes a minute and requires `pip install 'bochner[synthesis]'`.

    Args:
        name: The model: "en", "yue" or "bn".
        output_dir: The directory to write.
        source: For "en", PocketSphinx's directory model/en-us, from its repository or its Python package.
        hours: Of synthetic speech, for the other models.
        seed: Seed of the synthetic speech.
    """
    one_of("name", name, ["en", "yue", "bn"])
    if name == "en":
        from bochner.speech.pretrained.build import build_english

        if source is None:
            raise ValueError("source must be PocketSphinx's directory model/en-us for the model en, got none.")
        build_english(source, output_dir)
    else:
        from bochner.speech.pretrained.synthetic import build_synthetic

        build_synthetic(name, output_dir, hours=hours, seed=seed)
    logger.info(labelled("model", f"{output_dir} (for bochner align --model)"))


MODELS = {
    "_help": "Pre-trained models: list, show, verify and build them.",
    "list": list_models,
    "show": show,
    "verify": verify,
    "build": build,
}
