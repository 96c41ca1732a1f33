"""What the speech tests share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """The path of a public corpus that is not part of the repository; the test is skipped where it is not there."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{name} is not beside the repository (shared/data)")
        return path

    return find
