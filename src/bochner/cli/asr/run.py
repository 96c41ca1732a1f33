"""`bochner asr run`: a recipe from its corpus to the comparison of its models."""

from __future__ import annotations

import sys
from pathlib import Path

from bochner.cli.asr.changes import changes_of


def run(
    recipe: str,
    *,
    output_dir: Path,
    source: Path | None = None,
    set: str | None = None,  # noqa: A002 (the option is --set)
    device: str = "auto",
    workers: int = 1,
) -> None:
    """Train kernel acoustic models and networks on the same speech, decode with each, and compare their errors.

    Examples:

        bochner asr run timit-demo --output_dir out/demo
        bochner asr run timit --source /data/TIMIT --output_dir out/timit
        bochner asr run my.yaml --output_dir out/mine --set "models.gaussian.num_features: 50000"
        bochner asr run timit-like --output_dir out/ablation --set "models: ablation, seeds: [0, 1, 2]"

    The stages: corpus, alignment (frames, GMM, the state of every frame), each model for each seed, decoding of dev by
    all and of test by the chosen ones. Each lies in a folder whose name has the hash of all that it was made from:
    given again, the command does only what is not there yet or what a changed setting touches; stopped, it goes on.

    OUTPUT_DIR then holds results.json, report.html, models/best (for `bochner transcribe`), and recipe.json, all
    settings as they were used. `bochner asr list` names the recipes; the page "Acoustic models" of the documentation
    says what can stand in one. It needs `pip install 'bochner[synthesis]'`, or `[speech]` for recorded corpora.

    Args:
        recipe: A name, or a YAML file.
        output_dir: Folder for everything.
        source: The corpus, for recipes that need one: short for --set "corpus.source: PATH".
        set: Other values than the recipe's, by their path: "decoding.order: 3, combine: false".
        device: Where models are trained: "cpu", "cuda", or "auto", the GPU where there is one.
        workers: Processes for synthesis, alignment and decoding.
    """
    from bochner.acoustic.recipe import load_recipe
    from bochner.acoustic.run import run_recipe
    from bochner.cli.asr.summary import show

    changes = changes_of(set) | ({} if source is None else {"corpus.source": str(source.resolve())})
    loaded = load_recipe(recipe, changes=changes)
    results = run_recipe(loaded, output_dir, device=device, workers=workers, progress=sys.stderr.isatty())
    show(results, output_dir)
