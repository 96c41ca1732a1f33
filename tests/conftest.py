"""Settings that must be in place before anything else is imported, and data that are not part of the repository."""

import gc
import os

# scikit-learn skips its array API check without this; here no check may be skipped.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
# The matrices are tiny and pytest runs one process per core: more threads would only wait for each other, also in the
# processes that tests start.
os.environ.setdefault("BOCHNER_TEST_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["BOCHNER_TEST_THREADS"])

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

# Without a GPU the Triton kernels run in Triton's interpreter, which must be chosen before anything imports Triton.
if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# Modules and tests live as long as the process: looking for garbage among them takes a third of their collection, and
# time in every test after it.
gc.disable()

torch.set_num_threads(int(os.environ["BOCHNER_TEST_THREADS"]))

# The same examples on every machine, however slow, so that failures can be reproduced.
settings.register_profile("bochner", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("bochner")

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files are divided among processes; those of a package that share models, which take long to make, are not."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "tests/acoustic" if nodeid.startswith("tests/acoustic/") else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_unconfigure() -> None:
    gc.unfreeze()  # some libraries report what is left at the end


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The path of a public data set that is not part of the repository; the test is skipped if it is missing."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{name} is not beside the repository (shared/data)")
        return path

    return find
