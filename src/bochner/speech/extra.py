"""Packages of the optional extras, imported when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def imported(package: str, *, extra: str = "speech") -> Any:
    """The package, or an error that names the extra it comes with.

    >>> imported("no_such_package")
    Traceback (most recent call last):
    ...
    ImportError: no_such_package is missing: pip install 'bochner[speech]'.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"{package} is missing: pip install 'bochner[{extra}]'.") from error
