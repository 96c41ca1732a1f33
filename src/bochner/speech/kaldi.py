"""The Kaldi wheels, imported once in the one order in which they share their C++ types.

>>> from bochner.speech.kaldi import kaldi_decoder, kaldi_hmm_gmm, kaldifst
>>> kaldifst.StdVectorFst().num_states
0
"""

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


# isort: off
try:
    import kaldifst  # another order hangs or gives types that the next wheel does not know
    import kaldi_decoder
    import kaldi_hmm_gmm
except ImportError as error:
    raise ImportError(f"speech graphs, alignment and decoding need: pip install bochner[speech] ({error}).") from error
# isort: on

__all__ = ["kaldi_decoder", "kaldi_hmm_gmm", "kaldifst"]
