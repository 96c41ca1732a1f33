"""Settings that must be in place before anything else is imported."""

import os

# scikit-learn skips its array API check without this; here no check may be skipped.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import torch

# The matrices are tiny and pytest runs one process a core: threads would only wait for each other.
torch.set_num_threads(1)
