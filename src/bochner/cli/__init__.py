"""The command line: each command is a typed function, and its signature is the command's options."""

from __future__ import annotations

from jsonargparse import auto_cli

from bochner.cli.demo import demo


def main(arguments: list[str] | None = None) -> None:
    """Run `bochner COMMAND ...`."""
    auto_cli(
        {"demo": demo}, args=arguments, as_positional=False, prog="bochner", description="Kernel methods at scale."
    )
