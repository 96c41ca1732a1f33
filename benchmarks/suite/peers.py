"""The other libraries that are installed."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

# Name, import name and package name.
PEERS = {
    "scikit-learn": ("sklearn", "scikit-learn"),
    "GPyTorch": ("gpytorch", "gpytorch"),
    "KeOps": ("pykeops", "pykeops"),
    "xRFM": ("xrfm", "xrfm"),
    "himalaya": ("himalaya", "himalaya"),
}


def has(peer: str) -> bool:
    return find_spec(PEERS[peer][0]) is not None


def found() -> dict[str, str]:
    """The versions of installed peers."""
    return {peer: version(package) for peer, (_, package) in PEERS.items() if has(peer)}


def missing() -> list[str]:
    return [peer for peer in PEERS if not has(peer)]
