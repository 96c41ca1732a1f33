"""One run in several processes: rows of a batch and features of a model divided among them.

`joined()` makes the processes that torchrun started a team; `train`, and all that takes steps, then works together.
"""

from bochner.train.parallel.process import joined
from bochner.train.parallel.team import Team, here, working

__all__ = ["Team", "here", "joined", "working"]
