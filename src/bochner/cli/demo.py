"""`bochner demo`: a small experiment of `bochner asr run`."""

from __future__ import annotations

from pathlib import Path

from bochner.cli.asr import run

RECIPE = "timit-demo"


def demo(output_dir: Path = Path("out") / "demo", workers: int = 1) -> None:
    """Synthesize speech, train a kernel acoustic model and a network on it, and compare them.

    Example:

        bochner demo --output_dir out/demo

    This is `bochner asr run timit-demo`. It takes a few minutes on two cores and downloads nothing; after an
    interruption it continues. Requires `pip install 'bochner[synthesis,plot]'`.

    Args:
        output_dir: Directory for all results, among them report.html and results.json.
        workers: Processes for synthesis, alignment and decoding; more than 1 pay off for hours of speech.
    """
    run(RECIPE, output_dir=output_dir, workers=workers)
