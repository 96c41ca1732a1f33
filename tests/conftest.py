"""Settings that must be in place before anything else is imported, and data that are not part of the repository."""

import os

# scikit-learn skips its array API check without this; here no check may be skipped.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# Without a GPU the Triton kernels run in Triton's interpreter, which must be chosen before anything imports Triton.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The matrices are tiny and pytest runs one process per core: more threads would only wait for each other.
torch.set_num_threads(int(os.environ.get("BOCHNER_TEST_THREADS", "1")))

# The same examples on every machine, however slow, so that failures can be reproduced.
settings.register_profile("bochner", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("bochner")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The path of a public data set that is not part of the repository; the test is skipped if it is missing."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{name} is not beside the repository (shared/data)")
        return path

    return find
