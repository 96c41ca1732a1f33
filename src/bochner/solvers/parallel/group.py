"""Who works on a run: one process, unless it is said otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from bochner.data.blocks import Block
from bochner.models.criteria import Scores
from bochner.solvers.checkpoint import read_checkpoint, write_checkpoint
from bochner.solvers.preconditioner import Preconditioner

Found = tuple[dict[str, Tensor], dict[str, Any]]  # tensors and state of a checkpoint


class Team:
    """A single process, which has nothing to share, sum or wait for; `Mesh` is several."""

    is_first = True
    """Whether this is the process that writes and speaks."""

    num_processes = 1

    num_shares = 1
    """In how many parts the rows of a batch are divided."""

    def share(self, block: Block) -> Block:
        """The rows of a batch that are this process's."""
        return block

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up, in place, the gradients that processes have of their rows."""

    def join(self, scores: Scores) -> Scores:
        """The scores of the rows of all processes."""
        return scores

    def agree(self, value: float) -> float:
        """What the first process thinks."""
        return value

    def align(self, model: nn.Module) -> None:
        """Make the parameters of `model` everywhere those of the first process."""

    def split(self, model: nn.Module, preconditioner: Preconditioner | None) -> tuple[nn.Module, Preconditioner | None]:
        """This process's part of a model, and of the preconditioner that the first process has."""
        return model, preconditioner

    def gather(self, part: nn.Module, model: nn.Module) -> None:
        """Put the parts of all processes into the whole `model`."""

    def join_features(self, values: Tensor, part: nn.Module) -> Tensor:
        """What processes know of each frequency [P / parts] of their part of a model, of all frequencies [P]."""
        return values

    def wait(self) -> None:
        """Go on when all are here."""

    def write_checkpoint(
        self, checkpoint_dir: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any], model: nn.Module
    ) -> None:
        """Keep the state of a run whose part of the model is `model`."""
        write_checkpoint(checkpoint_dir, tensors, state)
        if _is_shared(checkpoint_dir):
            from bochner.solvers.parallel.checkpoint import remove_shared

            remove_shared(checkpoint_dir)

    def read_checkpoint(self, checkpoint_dir: Path, fingerprint: Mapping[str, Any], model: nn.Module) -> Found | None:
        """What any team kept there last, for this one's part of the whole `model`."""
        found = read_checkpoint(checkpoint_dir, fingerprint)
        if not _is_shared(checkpoint_dir):
            return found
        from bochner.solvers.parallel.checkpoint import read_shared

        return further(found, read_shared(checkpoint_dir, fingerprint))


ALONE = Team()
_HERE: ContextVar[Team] = ContextVar("team", default=ALONE)


def here() -> Team:
    """The team of this process."""
    return _HERE.get()


@contextmanager
def working(team: Team) -> Iterator[Team]:
    """Within this block `team` is the one of this process.

    >>> with working(Team()) as team:
    ...     here() is team
    True
    """
    token = _HERE.set(team)
    try:
        yield team
    finally:
        _HERE.reset(token)


def further(first: Found | None, second: Found | None) -> Found | None:
    """The later of two checkpoints of one run: a kill may leave both, of a team and of a single process."""
    if first is None or second is None:
        return first or second
    try:
        return max(first, second, key=lambda each: (each[1]["epoch"], each[1]["batch"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"a checkpoint must say where it stands ({error!r}); delete it to begin anew.") from error


def _is_shared(checkpoint_dir: Path) -> bool:
    return (checkpoint_dir / SHARED_NAME).exists()


SHARED_NAME = "checkpoint.json"  # names the folder of parts that is complete
