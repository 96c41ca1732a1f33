"""The provenance of rows: code, libraries, machine and data."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from bochner import __version__

LIBRARIES = ("torch", "numpy", "scikit-learn")


def provenance(data_dir: Path, files: Iterable[str]) -> dict[str, Any]:
    """Everything that a run depends on, as plain values, without names of machines or people.

    >>> sorted(provenance(Path("data"), []))
    ['bochner', 'commit', 'data', 'machine', 'versions']
    """
    return {
        "bochner": __version__,
        "commit": commit(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}},
        "machine": machine(),
        "data": {name: checksum(data_dir / name) for name in sorted(files)},
    }


def machine() -> dict[str, Any]:
    """The kind of machine."""
    return {
        "system": platform.system(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def commit() -> str | None:
    """The commit of the checkout that contains this package, with "+ changes" if files differ; None outside a
    checkout."""
    directory = Path(__file__).parent
    if _git(directory, "ls-files", "--error-unmatch", "__init__.py") is None:  # an installed copy
        return None
    head, changes = _git(directory, "rev-parse", "HEAD"), _git(directory, "status", "--porcelain", ":/src")
    return head and head + (" + changes" if changes else "")


def checksum(path: Path) -> str:
    """SHA-256 of a file; of a directory, that of the names and sizes of its files."""
    if path.is_dir():
        files = sorted((str(file.relative_to(path)), file.stat().st_size) for file in path.rglob("*") if file.is_file())
        return hashlib.sha256(repr(files).encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _git(directory: Path, *words: str) -> str | None:
    try:
        process = subprocess.run(["git", *words], cwd=directory, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return process.stdout.strip() if process.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    cpu = Path("/proc/cpuinfo")
    lines = cpu.read_text().splitlines() if cpu.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
