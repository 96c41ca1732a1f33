"""The argument parser of the commands: help from docstrings, one-line errors, options with hyphens, bare switches."""

from __future__ import annotations

import inspect
import json
import re
import sys
from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from types import NoneType
from typing import Any, NoReturn, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser
import yaml  # type: ignore[import-untyped]
from jsonargparse import ArgumentParser, DefaultHelpFormatter, Namespace, get_loader, set_loader

from bochner.cli.suggestions import option_hint, with_suggestion
from bochner.plain_yaml import read_yaml

PLAIN = "plain"  # the parser mode of jsonargparse that `load_plain` implements


def load_plain(text: str) -> Any:
    """Read a value as jsonargparse reads YAML, restricted to the plain YAML of `read_yaml`.

    >>> load_plain("{num_features: 64, num_features: 128}")
    Traceback (most recent call last):
    ...
    ValueError: the key 'num_features' comes twice
    ...
    """
    read_yaml(text)
    return get_loader("yaml")(text)


set_loader(PLAIN, load_plain, exceptions=(ValueError, yaml.YAMLError))


Command = TypeVar("Command", bound=Callable[..., Any])


def options_of(*classes: type, skip: Iterable[str] = ()) -> Callable[[Command], Command]:
    """Make the constructor arguments of `classes`, except for `skip`, options of a command.

    The command receives in its keyword arguments those that were given, and no defaults: which apply may depend on
    another option. Types and help are those of the classes; a name that two of them share is that of the first.
    """

    def add(command: Command) -> Command:
        command.option_classes, command.skipped_options = classes, frozenset(skip)  # type: ignore[attr-defined]
        return command

    return add


class CommandHelp(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Keeps the line breaks of examples."""


class CommandParser(ArgumentParser):
    """A parser whose options are the arguments of a function, and whose help is its docstring.

    In addition to what jsonargparse accepts, `--output-dir` is `--output_dir`, and a bare `--probabilities` is
    `--probabilities=true`. A command with an argument `overrides` accepts any option: `--decoding.beam 9`, if it is not
    one of its own, becomes `--overrides={"decoding.beam": 9}`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": CommandHelp, "parser_mode": PLAIN, **kwargs})

    def add_function_arguments(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[str]:
        added = super().add_function_arguments(function, *args, **kwargs)
        for option_class in getattr(function, "option_classes", ()):
            added += self._add_optional_arguments(option_class, {*function.skipped_options, *added})  # type: ignore[attr-defined]
        for action in self._actions:  # a positional list is one or more words: `transcribe MODEL a.wav b.wav`
            typehint = getattr(action, "_typehint", None)
            if not action.option_strings and get_origin(typehint) is list:
                action.nargs, action.metavar = "+", action.dest
                action._typehint = get_args(typehint)[0]  # type: ignore[attr-defined]
        positionals = [action.dest.upper() for action in self._actions if not action.option_strings]
        self.usage = " ".join([self._command, *positionals, "[options]"])
        self.epilog = _body(function)
        return added

    def _add_optional_arguments(self, option_class: type, skip: set[str]) -> list[str]:
        documentation = docstring_parser.parse(option_class.__doc__ or "")
        descriptions = {param.arg_name: param.description for param in documentation.params}
        group = self.add_argument_group((documentation.short_description or "").rstrip("."))
        # resolved here: jsonargparse does not resolve the annotations of inherited dataclass fields
        types, parameters = get_type_hints(option_class), inspect.signature(option_class).parameters
        added = [name for name in parameters if name not in skip]
        for name in added:
            text = f"{descriptions.get(name) or ''} (default: {parameters[name].default})".strip()
            group.add_argument(f"--{name}", type=types[name], default=SUPPRESS, help=text.replace("%", "%%"))
        return added

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None, **kwargs: Any
    ) -> Namespace:
        words = sys.argv[1:] if args is None else list(args)
        try:
            if "--overrides" in self._option_string_actions:
                words = list(self._with_overrides(words))
            return super().parse_args(list(self._normalized(words)), namespace, **kwargs)
        except ValueError as error:  # a --config that is not text, or a number with thousands of digits
            self.error(str(error), error)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """One line on stderr, and exit code 2."""
        parser = getattr(ex, "subcommand_parser", None) or self
        name = parser._command
        text = plain_types(" ".join(message.replace('Parser key "', 'option "').split()))
        if unknown := re.match(r"unrecognized arguments: (-\S+)", text):
            text = text.rstrip(".") + option_hint(unknown[1], parser._option_string_actions)
        text = with_suggestion(text)
        self.exit(2, f"{name}: error: {text}{'' if text[-1] in '.?' else '.'} See: {name} --help\n")

    def format_help(self, *args: Any, **kwargs: Any) -> str:
        return plain_types(super().format_help(*args, **kwargs))

    @property
    def _command(self) -> str:
        """Such as "bochner speech align"."""
        return self.prog.replace(" [options]", "")

    def _normalized(self, words: Sequence[str]) -> Iterator[str]:
        if self._subcommands_action is not None:  # done by the parser of the command
            yield from words
            return
        for word, following in pairwise([*words, ""]):
            option, equals, value = word.partition("=")
            if option.startswith("--"):
                option = "--" + option[2:].replace("-", "_")
            is_bare = self._is_switch(option) and not equals and following not in ("true", "false", "null")
            yield f"{option}=true" if is_bare else f"{option}{equals}{value}"

    def _with_overrides(self, words: list[str]) -> Iterator[str]:
        overrides, words = {}, list(words)
        while words:
            word = words.pop(0)
            option, equals, value = word.partition("=")
            if not option.startswith("--") or f"--{option[2:].replace('-', '_')}" in self._option_string_actions:
                yield word
                continue
            if not equals:
                value = words.pop(0) if words and not words[0].startswith("--") else "true"
            overrides[option[2:]] = read_yaml(value)
        if overrides:
            yield f"--overrides={json.dumps(overrides, default=str)}"

    def _is_switch(self, option: str) -> bool:
        typehint = getattr(self._option_string_actions.get(option), "_typehint", None)
        return typehint is bool or (bool in get_args(typehint) and set(get_args(typehint)) <= {bool, NoneType})


def plain_types(text: str) -> str:
    """Types as users write them; line breaks in help may divide them.

    >>> plain_types("Expected a <class 'int'>, or typing.Literal['a', 'b']")
    "Expected an int, or one of 'a', 'b'"
    >>> plain_types("--ignore IGNORE, --ignore+ IGNORE (type: Union[list[str], str, null])")
    '--ignore IGNORE (type: list[str] | str | null)'
    """
    text = re.sub(r", --\w+\+ \w+", "", text)
    text = re.sub(r"Union\[((?:[^][]|\[[^]]*\])*)\]", lambda union: re.sub(r",(\s+)", r" |\1", union[1]), text)
    text = re.sub(r"(?:typing\.)?Literal\[([^]]*)\]", r"one of \1", text)
    text = re.sub(r"<class\s+'(?:[\w.]+\.)?(\w+)'>", r"\1", text)
    return re.sub(r"\ba one of ", "one of ", re.sub(r"\ba (?=[ieaou]\w+\b[.,])", "an ", text))


def _body(function: Callable[..., Any]) -> str:
    """The docstring without its first line and its arguments."""
    text = inspect.getdoc(function) or ""
    return text.partition("\n\n")[2].partition("Args:")[0].strip()
