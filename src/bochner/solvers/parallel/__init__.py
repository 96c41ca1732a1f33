"""One training run in several processes: rows of a batch and features of a model divided among them."""

from bochner.solvers.parallel.group import Team, here, working
from bochner.solvers.parallel.mesh import joined

__all__ = ["Team", "here", "joined", "working"]
