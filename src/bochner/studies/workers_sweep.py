"""Who measures the cells of a study, as a user says it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bochner import checks
from bochner.studies.study import Where
from bochner.studies.workers import Crew, NamedMeasure
from bochner.studies.workers_dask import DaskCrew
from bochner.studies.workers_local import LocalCrew


@dataclass(frozen=True)
class Sweep:
    """This process alone; or several `workers` of this machine; or those of the Dask scheduler at address `cluster`.

    Workers try a cell that fails up to `retries` times more. They know registered studies only.

    >>> Sweep(workers=4, cluster="tcp://10.0.0.1:8786")
    Traceback (most recent call last):
    ValueError: workers must be 1 with cluster 'tcp://10.0.0.1:8786', which has its own, got 4.
    """

    workers: int = 1
    cluster: str | None = None
    retries: int = 2

    def __post_init__(self) -> None:
        checks.nonnegative_int("retries", self.retries)
        if checks.positive_int("workers", self.workers) > 1 and self.cluster is not None:
            raise ValueError(f"workers must be 1 with cluster {self.cluster!r}, which has its own, got {self.workers}.")

    def crew(self, study: str, where: Where) -> Crew | None:
        """Ready to work; None for this process alone. What workers make on the way they keep to themselves."""
        measure = NamedMeasure(study, replace(where, data_dir=where.data_dir.resolve(), made=None))
        if self.cluster is not None:
            return DaskCrew(measure, address=self.cluster)
        return LocalCrew(measure, count=self.workers) if self.workers > 1 else None

    def about(self) -> dict[str, Any]:
        """What a run of it notes beside the machine: nothing for this process alone. An address may name a machine."""
        if self.cluster is not None:
            return {"workers": "of a Dask cluster, on machines of their own"}
        return {"workers": self.workers} if self.workers > 1 else {}
