"""`bochner asr`: kernel acoustic models and networks. The extra `speech` is imported when a command runs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

from bochner.cli.logs import labelled

MAX_COMPARED = 4  # the number of models that the comparison shows
LINE_WIDTH = 120


def run(
    recipe: str,
    *,
    output_dir: Path,
    source: Path | None = None,
    overrides: dict[str, Any] | None = None,
    device: str = "auto",
    workers: int = 1,
) -> None:
    """Train kernel acoustic models and networks on the same speech, decode with each, and compare their errors.

    Examples:

        bochner asr run timit-demo --output_dir out/demo
        bochner asr run own --source recordings --output_dir out/own
        bochner asr run timit --source /data/TIMIT --output_dir out/timit
        bochner asr run my.yaml --output_dir out/mine --models.gaussian.num_features 50000 --decoding.beam 9
        bochner asr run timit-like --output_dir out/ablation --models ablation --seeds [0,1,2]

    Every setting of a recipe is an option, named by its path. The stages are: corpus; alignment (frames, GMM, the state
    of every frame); each model for each seed; decoding of dev by all models and of test by the chosen ones. The
    directory of a stage is named by a hash of its inputs: the same command again continues after an interruption, and
    repeats only the stages that a changed setting affects.

    OUTPUT_DIR then contains results.json, report.html, models/best (for `bochner transcribe`), and recipe.json with all
    settings. `bochner asr list` names the recipes; the page "Acoustic models" of the documentation describes their
    settings. Requires `pip install 'bochner[synthesis]'`, or `[speech]` for recorded corpora.

    Args:
        recipe: A name, or a YAML file.
        output_dir: Directory for all results.
        source: The corpus, for recipes that need one; short for --corpus.source.
        overrides: Settings by path, as one mapping; --decoding.order 3 is short for one entry.
        device: Where models are trained: "cpu", "cuda", or "auto", which is the GPU if there is one.
        workers: Processes for synthesis, alignment and decoding.
    """
    from bochner.acoustic.experiment import run_recipe
    from bochner.acoustic.recipe import load_recipe

    settings = (overrides or {}) | ({} if source is None else {"corpus.source": str(source.resolve())})
    results = run_recipe(
        load_recipe(recipe, overrides=settings), output_dir, device=device, workers=workers, verbose=sys.stderr.isatty()
    )
    show(results, output_dir)


def show(results: Any, output_dir: Path) -> None:
    """Print the tables, their protocol, and the paths of the results."""
    from bochner.acoustic.report import write_report
    from bochner.acoustic.results import all_models, as_text, comparison, protocol

    if len({row.model for row in results.rows}) > MAX_COMPARED:
        print(f"\n{as_text(all_models(results))}")
    print(f"\n{as_text(comparison(results))}\n\n{fill(protocol(results), LINE_WIDTH)}\n", flush=True)
    print(labelled("results", str(output_dir / "results.json")))
    try:
        print(labelled("report", str(write_report(output_dir))))
    except ImportError as error:  # matplotlib is optional
        print(labelled("report", f"not written: {error}"))
    best = output_dir / "models" / "best"
    if _reads_audio(best):
        print(labelled("next", shlex.join(["bochner", "transcribe", str(best), "AUDIO.wav"])))
    else:
        print(labelled("note", "The corpus provides frames, so its models cannot transcribe recordings."))
        print(labelled("next", shlex.join(["bochner", "asr", "compare", str(output_dir.parent)])))


def _reads_audio(model: Path) -> bool:
    """Whether a saved acoustic model has a front end for recordings."""
    from bochner.acoustic.model import DESCRIPTION

    description = model / DESCRIPTION
    return not description.exists() or json.loads(description.read_bytes())["front_end"] is not None


def compare(directory: Path, *, markdown: bool = False) -> None:
    """Print the test errors of the experiments below a directory, one line each.

    Examples:

        bochner asr compare out
        bochner asr compare out --markdown

    As in the papers' Table 7, the columns are the network and the kernel model chosen on dev. Values are means over the
    seeds of each experiment, with their standard deviation.

    Args:
        directory: A directory of finished `bochner asr run` output directories.
        markdown: Print a Markdown table.
    """
    from bochner.acoustic.results import FILE, across, as_text, read_results
    from bochner.report import markdown_table

    results = [read_results(path) for path in sorted(directory.glob(f"*/{FILE}"))]
    if not results:
        raise ValueError(f"directory must hold finished experiments, */{FILE}, got {directory}; use `bochner asr run`.")
    table = across(results)
    print(markdown_table(table[0], table[1:]) if markdown else as_text(table))


def list_() -> None:
    """Print the names and purposes of the recipes.

    Example:

        bochner asr list
    """
    from bochner.acoustic.recipe import recipe_descriptions

    for name, about in recipe_descriptions().items():
        print(f"{name:<16} {about}")


def kaldi(
    data: Path,
    alignments: Path,
    *,
    output_dir: Path,
    score: list[Path] | None = None,
    model: str = "gaussian",
    recipe: str = "kaldi",
    overrides: dict[str, Any] | None = None,
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Train a model on the frames and alignments of a Kaldi system, and write log likelihoods for Kaldi's decoder.

    Examples:

        bochner asr kaldi data/train exp/tri3_ali --output_dir out/kaldi --score [data/dev,data/test]
        bochner asr kaldi data/train exp/tri3_ali --output_dir out/kaldi --model network --frontend.context 7

    `latgen-faster-mapped exp/tri3/final.mdl exp/tri3/graph/HCLG.fst ark:OUTPUT_DIR/dev.ark ark:lattices.ark` then
    decodes dev. Frames are those of feats.scp, normalised if there is a cmvn.scp; paths are relative to the working
    directory. The same command again continues after an interruption, and does not train a finished model.

    Args:
        data: A data directory with feats.scp and utt2spk.
        alignments: An experiment directory with ali.*.gz, final.mdl, tree and phones.txt.
        output_dir: Directory for the model and the archives.
        score: Data directories whose log likelihoods are written to OUTPUT_DIR/NAME.ark and NAME.scp.
        model: The name of a model of the recipe.
        recipe: A name, or a YAML file, of which models and frontend.context are used.
        overrides: Settings of the recipe by path, as one mapping; --frontend.context 7 is short for one entry.
        seed: Seed of all random choices.
        device: Where the model is trained: "cpu", "cuda", or "auto", which is the GPU if there is one.
    """
    from bochner import checks
    from bochner.acoustic.kaldi import KaldiFrames, train_on_kaldi, write_likelihoods
    from bochner.acoustic.recipe import load_recipe
    from bochner.search.plan import resolve_device

    loaded = load_recipe(recipe, overrides={"corpus.source": str(data), **(overrides or {})})
    checks.one_of("model", model, loaded.models)
    trained = train_on_kaldi(
        loaded.models[model], data=data, alignments=alignments, output_dir=output_dir,
        context=loaded.frontend.context, seed=seed, device=str(resolve_device(device)), verbose=sys.stderr.isatty(),
    )  # fmt: skip
    print(labelled("model", str(output_dir)))
    for directory in score or []:
        archive = write_likelihoods(trained, KaldiFrames(directory), output_dir / directory.name)
        print(labelled("scored", str(archive)), flush=True)


ASR: dict[str, Any] = {
    "_help": "Kernel acoustic models against networks, from a corpus to error rates: run, compare, list, kaldi.",
    "run": run,
    "compare": compare,
    "list": list_,
    "kaldi": kaldi,
}
