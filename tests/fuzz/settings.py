"""Settings in YAML and JSON."""

from __future__ import annotations

import contextlib
import io
from functools import cache
from pathlib import Path

from jsonargparse import ArgumentParser, auto_parser

from bochner.acoustic.recipe import load_recipe
from bochner.cli.parser import CommandParser
from bochner.cli.train import train
from bochner.cli.train_directory import TrainDirectory
from tests.fuzz.reader import Reader, written

RECIPE = """like: timit-demo
about: Two models  # of few features
corpus: {kind: synthetic, language: english, hours: 0.1, snr: [10, 30]}
models:
  kernel: {kind: kernel, num_features: 512, learning_rate: 1e-1, selection: {rounds: 5}}
  network: {kind: network, hidden: [8, 8], pretrain: false, rank: null}
decoding:
  order: 3
  beam: 9.5
seeds: [0, 1]
"""
CONFIG = """data: rings.csv
target: ring
n_components: 64
kernel:
  class_path: bochner.kernels.Gaussian
  init_args: {bandwidth: 2.0}
class_weight: {0: 1.0, 1: 2.5}
solver: sgd
"""
RUN_OPTIONS = {"data": "rings.csv", "n_components": 64, "kernel": None}
LAUGHS = b"a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\nd: [*c, *c, *c]\n"
HOSTILE = (
    LAUGHS, b"&a", b"*a", b"<<: *a", b"!!timestamp x", b"!!binary x", b"!!int ''", b"!!set {a}", b"!!omap [a]", b"? ",
    b"2001-13-45", b"0x" + b"f" * 5000, b"1:99:99", b".inf", b".nan", b"{" * 300, b"- " * 300, b"---\n", b"%YAML 9.9\n",
    b"like: good.yaml", b"kind: kernel", b"[1, 2]", b"~", b"on",
)  # fmt: skip


@cache
def command() -> ArgumentParser:
    return auto_parser(train, parser_class=CommandParser)


def read_config(path: Path) -> object:
    """Options of `bochner train --config`; an error takes one line, with exit code 2."""
    stderr = io.StringIO()
    try:
        with contextlib.redirect_stderr(stderr):
            return command().parse_args([f"--config={path}"])
    except SystemExit as error:
        assert (error.code, stderr.getvalue().count("\n")) == (2, 1), stderr.getvalue()
        raise ValueError(f"{path}: {stderr.getvalue()}") from error


def stopped_run(folder: Path) -> Path:
    directory = TrainDirectory(folder / "run")
    with contextlib.suppress(KeyboardInterrupt), directory.run(RUN_OPTIONS, overwrite=False):
        directory.checkpoint.mkdir()
        (directory.checkpoint / "checkpoint.safetensors").touch()
        raise KeyboardInterrupt
    return directory.config


def resume(path: Path) -> None:
    with contextlib.suppress(KeyboardInterrupt), TrainDirectory(path.parent).run(RUN_OPTIONS, overwrite=False):
        raise KeyboardInterrupt


SETTINGS_READERS: dict[str, Reader] = {
    "recipe (YAML)": Reader(written("good.yaml", RECIPE), load_recipe, HOSTILE),
    "options (YAML)": Reader(written("good.yaml", CONFIG), read_config, (*HOSTILE, b"class_path: os.system")),
    "run's options": Reader(stopped_run, resume, (b"[]", b"{}", b"3")),
}
