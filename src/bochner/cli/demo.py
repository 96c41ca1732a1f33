"""`bochner demo`: the product's main job, small."""

from __future__ import annotations

from pathlib import Path

from bochner.cli.asr.run import run

RECIPE = "timit-demo"


def demo(output_dir: Path = Path("out") / "demo", workers: int = 1) -> None:
    """Make some synthetic speech, train a kernel acoustic model and a network on it, and compare them.

    Example:

        bochner demo --output_dir out/demo

    It takes a few minutes on two cores and downloads nothing; stopped, it goes on where it was. This is
    `bochner asr run timit-demo`. It needs `pip install 'bochner[synthesis,plot]'`.

    Args:
        output_dir: Folder for everything, report.html and results.json among it.
        workers: Processes for synthesis, alignment and decoding; more than 1 pays for hours of speech.
    """
    run(RECIPE, output_dir=output_dir, workers=workers)
