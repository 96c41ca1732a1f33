"""The command line: every command is a typed function whose signature defines its options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from jsonargparse import auto_cli, set_parsing_settings

from bochner import __version__
from bochner.cli.errors import one_line_errors
from bochner.cli.logs import console_logging
from bochner.cli.parser import CommandParser

# Where each command is, and the first line of its help: `bochner --help` imports none of them.
COMMANDS = {
    "train": ("bochner.cli.train:train", "Fit a kernel model or a network on a file of rows."),
    "predict": ("bochner.cli.predict:predict", "Predict every row of a file."),
    "evaluate": ("bochner.cli.evaluate:evaluate", "Score a model on a file of rows with known targets."),
    "info": ("bochner.cli.info:info", "Describe a model file."),
    "report": ("bochner.cli.report:report", "Write an HTML page about a model."),
    "approximate": ("bochner.cli.approximate:approximate", "Approximate the kernel matrix K of a file of rows."),
    "align": ("bochner.cli.align:align", "Align recordings with their texts: the times of words and phones."),
    "transcribe": ("bochner.cli.transcribe:transcribe", "Print the words of recordings."),
    "adapt": ("bochner.cli.adapt:adapt", "Adapt a saved acoustic model to a speaker or a domain."),
    "validate": ("bochner.cli.adapt:validate", "Check recordings with transcripts."),
    "demo": ("bochner.cli.demo:demo", "Compare kernel methods with others on tables, factors and speech."),
}
GROUPS = {
    "speech": ("bochner.cli.speech:SPEECH", "Prepare corpora; align, decode and score recordings."),
    "asr": ("bochner.cli.asr:ASR", "Kernel acoustic models against networks, from a corpus to error rates."),
    "study": ("bochner.cli.study:STUDY", "The papers' tables and figures, and which of their findings hold."),
}


def main(arguments: list[str] | None = None) -> None:
    """Run `bochner COMMAND ...`."""
    # A `class_path` in a configuration is imported, which runs code: only bochner's kernels may be named.
    set_parsing_settings(
        import_path_denylist=["*"], import_path_allowlist=["bochner.kernels"], add_print_completion_argument=True
    )
    words = sys.argv[1:] if arguments is None else arguments
    with console_logging(), one_line_errors():
        auto_cli(
            components(words),
            args={(): ["--help"], ("-V",): ["--version"]}.get(tuple(words[:1]), words),
            parser_class=CommandParser,
            prog="bochner",
            description="Kernel methods at scale.",
            version=__version__,
        )


def components(words: list[str]) -> dict[str, Any]:
    """The command that `words` begin with; all of them for shell completion; otherwise only their names and help."""
    places = COMMANDS | GROUPS
    if words and words[0] in places:
        return {words[0]: load_command(words[0])}
    if words and words[0].startswith("--print_completion"):
        return {name: load_command(name) for name in places}
    return {name: _named(name, summary) for name, (_, summary) in places.items()}


def load_command(name: str) -> Any:
    """The function of a command, or the functions of a group by their names."""
    module, attribute = (COMMANDS | GROUPS)[name][0].split(":")
    return getattr(import_module(module), attribute)


def _named(name: str, summary: str) -> Callable[[], None]:
    """A function without options that has the help of a command."""

    def command() -> None:
        main([name])

    command.__name__, command.__doc__ = name, summary
    return command
