"""Workers of a Dask cluster."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any

from bochner.studies.ledger import Result
from bochner.studies.study import Measure


class DaskCrew:
    """The workers that the scheduler at `address` has, and those that come later.

    `measure` is sent to them: it must be importable there. The scheduler itself gives a cell whose worker dies to
    another, as often as its setting `distributed.scheduler.allowed-failures` says; then the future fails.
    """

    def __init__(self, measure: Measure, *, address: str) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise ImportError(f"cluster {address!r} needs Dask: pip install 'bochner[cluster]'.") from error
        self._measure = measure
        self._client: Any = Client(address)
        self._executor: Any = self._client.get_executor(pure=False)  # pure: a failed cell's failure would be kept

    def submit(self, cell: Any) -> Future[Result]:
        return self._executor.submit(self._measure, cell)

    def __enter__(self) -> DaskCrew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()
