"""The command line: every command is a typed function whose signature defines its options."""

from __future__ import annotations

import sys
from typing import Any

from jsonargparse import auto_cli, set_parsing_settings

from bochner import __version__
from bochner.cli.approximate import approximate
from bochner.cli.asr import ASR
from bochner.cli.demo import demo
from bochner.cli.errors import one_line_errors
from bochner.cli.evaluate import evaluate
from bochner.cli.info import info
from bochner.cli.logs import console_logging
from bochner.cli.parser import CommandParser
from bochner.cli.predict import predict
from bochner.cli.speech import SPEECH
from bochner.cli.study import STUDY
from bochner.cli.train import train
from bochner.cli.transcribe import transcribe

COMMANDS: dict[str, Any] = {
    "train": train,
    "predict": predict,
    "evaluate": evaluate,
    "info": info,
    "approximate": approximate,
    "transcribe": transcribe,
    "demo": demo,
}
GROUPS: dict[str, Any] = {"speech": SPEECH, "asr": ASR, "study": STUDY}


def main(arguments: list[str] | None = None) -> None:
    """Run `bochner COMMAND ...`."""
    # A `class_path` in a configuration is imported, which runs code: only bochner's kernels may be named.
    set_parsing_settings(
        import_path_denylist=["*"], import_path_allowlist=["bochner.kernels"], add_print_completion_argument=True
    )
    words = sys.argv[1:] if arguments is None else arguments
    with console_logging(), one_line_errors():
        auto_cli(
            COMMANDS | GROUPS,
            args=["--version"] if words[:1] == ["-V"] else words,
            parser_class=CommandParser,
            prog="bochner",
            description="Kernel methods at scale.",
            version=__version__,
        )
