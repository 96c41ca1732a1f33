"""`bochner asr kaldi`: a model for someone's own Kaldi system."""

from __future__ import annotations

import sys
from pathlib import Path

from bochner.cli.asr.changes import changes_of
from bochner.cli.report import say


def kaldi(
    data: Path,
    alignments: Path,
    *,
    output_dir: Path,
    score: list[Path] | None = None,
    model: str = "gaussian",
    recipe: str = "kaldi",
    set: str | None = None,  # noqa: A002 (the option is --set)
    seed: int = 0,
    device: str = "auto",
) -> None:
    """Train a model on the frames and alignments of a Kaldi system, and write log likelihoods that Kaldi decodes.

    Examples:

        bochner asr kaldi data/train exp/tri3_ali --output_dir out/kaldi --score [data/dev,data/test]
        bochner asr kaldi data/train exp/tri3_ali --output_dir out/kaldi --model network

    `latgen-faster-mapped exp/tri3/final.mdl exp/tri3/graph/HCLG.fst ark:OUTPUT_DIR/dev.ark ark:lattices.ark` then
    decodes dev. Frames are taken as feats.scp has them, normalised where there is a cmvn.scp; paths begin here. The
    same command again trains nothing anew.

    Args:
        data: A data directory with feats.scp and utt2spk.
        alignments: An experiment directory with ali.*.gz, final.mdl, tree and phones.txt.
        output_dir: Folder for the model and the archives.
        score: Data directories whose log likelihoods are written to OUTPUT_DIR/NAME.ark and NAME.scp.
        model: Which of the recipe's models.
        recipe: A name, or a YAML file; of it models and frontend.context are used.
        set: Other values than the recipe's, by their path: "frontend.context: 7".
        seed: Of everything random.
        device: Where the model is trained: "cpu", "cuda", or "auto", the GPU where there is one.
    """
    from bochner import checks
    from bochner.acoustic.kaldi import KaldiFrames, train_on_kaldi, write_likelihoods
    from bochner.acoustic.recipe import load_recipe
    from bochner.search.plan import resolve_device

    asked = load_recipe(recipe, changes={"corpus.source": str(data), **changes_of(set)})
    checks.one_of("model", model, asked.models)
    trained = train_on_kaldi(
        asked.models[model], data=data, alignments=alignments, folder=output_dir, context=asked.frontend.context,
        seed=seed, device=str(resolve_device(device)), progress=sys.stderr.isatty(),
    )  # fmt: skip
    say("model", str(output_dir))
    for folder in score or []:
        say("scored", str(write_likelihoods(trained, KaldiFrames(folder), output_dir / folder.name)))
