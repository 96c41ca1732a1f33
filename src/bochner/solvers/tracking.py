"""Callbacks that send each epoch of `train` to TensorBoard or MLflow. The step of every number is the epoch, from 1.

The parameter of a criterion is joined by an underscore, since neither tool accepts a colon everywhere: erll:0.5 is
written as erll_0.5.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bochner.solvers.optimizers import SGDSettings

if TYPE_CHECKING:
    from bochner.solvers.parallel import Workers

Record = Mapping[str, Any]


@contextmanager
def make_callbacks(
    tracking: str | None,
    *,
    settings: SGDSettings | None = None,
    run_name: str | None = None,
    group: Workers | None = None,
) -> Iterator[list[TensorBoardWriter | MLflowWriter]]:
    """The callbacks for `train` that `tracking` names, closed at the end of the block.

    Args:
        tracking: "tensorboard:DIR" writes events to DIR; "mlflow" and "mlflow:URI" write a run to MLflow's default
            store or to URI, such as "mlflow:sqlite:///runs.db"; None tracks nothing.
        settings: Written with the epochs.
        run_name: The name of an MLflow run.
        group: With several processes the first one writes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, make_callbacks(f"tensorboard:{directory}") as callbacks:
    ...     [type(callback).__name__ for callback in callbacks]
    ['TensorBoardWriter']
    """
    check_tracking(tracking)
    if tracking is None or not (group is None or group.is_first):
        yield []
        return
    tool, _, place = tracking.partition(":")
    writer: TensorBoardWriter | MLflowWriter
    if tool == "tensorboard":
        writer = TensorBoardWriter(place, settings=settings)
    else:
        writer = MLflowWriter(run_name=run_name, tracking_uri=place or None, settings=settings)
    with writer:
        yield [writer]


def check_tracking(tracking: str | None) -> None:
    """A ValueError unless `make_callbacks` accepts `tracking`.

    >>> check_tracking("tensorbord")
    Traceback (most recent call last):
    ...
    ValueError: tracking must be 'tensorboard:DIR', 'mlflow', 'mlflow:URI' or None, got 'tensorbord'.
    """
    tool, _, place = (tracking or "").partition(":")
    if tracking is not None and tool != "mlflow" and not (tool == "tensorboard" and place):
        raise ValueError(f"tracking must be 'tensorboard:DIR', 'mlflow', 'mlflow:URI' or None, got {tracking!r}.")


class TensorBoardWriter:
    """Epochs as TensorBoard events in `directory`: numbers as scalars, the decision and the settings as text.

    Events are on disk after every epoch. Resumed training writes to the same directory; an epoch that was repeated
    after an interruption is recorded twice. Needs `pip install bochner[tensorboard]`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory, TensorBoardWriter(directory) as writer:
    ...     writer({"epoch": 1, "rate": 4.0, "decision": "go on", "ce": 0.7})
    """

    def __init__(self, directory: str | PathLike[str], *, settings: SGDSettings | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("TensorBoardWriter", "tensorboard", "tensorboard") from error
        self._writer = SummaryWriter(str(directory))
        if settings is not None:
            self._writer.add_text("settings", _table(asdict(settings)))
            self._writer.flush()

    def __call__(self, record: Record) -> None:
        for name, value in _numbers(record).items():
            self._writer.add_scalar(name, value, record["epoch"])
        for name, text in _texts(record).items():
            self._writer.add_text(name, text, record["epoch"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class MLflowWriter:
    """One MLflow run: numbers as metrics, text as tags (a tag keeps its last value only), the settings as parameters.

    A run that ends by an exception is marked FAILED, by a keyboard interrupt KILLED, otherwise FINISHED. Each writer is
    a separate run: resumed training starts a new one at its current epoch. No global state is changed. Needs
    `pip install bochner[mlflow]`.

    Args:
        run_name: Its name; None for one that MLflow chooses.
        experiment: The experiment of the run, created if there is none of that name.
        tracking_uri: A database such as "sqlite:///runs.db" or a server; None for MLflow's default.
        settings: Written as parameters.
    """

    def __init__(
        self,
        *,
        run_name: str | None = None,
        experiment: str = "Default",
        tracking_uri: str | None = None,
        settings: SGDSettings | None = None,
    ) -> None:
        try:
            from mlflow.entities import Param
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise _missing("MLflowWriter", "mlflow-skinny", "mlflow") from error
        self._client = MlflowClient(tracking_uri)
        known = self._client.get_experiment_by_name(experiment)
        experiment_id = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self.run_id: str = self._client.create_run(experiment_id, run_name=run_name).info.run_id
        if settings is not None:
            self._client.log_batch(
                self.run_id, params=[Param(key, str(value)) for key, value in asdict(settings).items()]
            )

    def __call__(self, record: Record) -> None:
        from mlflow.entities import Metric, RunTag

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, record["epoch"]) for name, value in _numbers(record).items()]
        tags = [RunTag(name, value) for name, value in _texts(record).items()]
        self._client.log_batch(self.run_id, metrics=metrics, tags=tags)

    def close(self, *, status: str = "FINISHED") -> None:
        self._client.set_terminated(self.run_id, status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        interrupted = isinstance(error, KeyboardInterrupt)
        self.close(status="FINISHED" if error is None else "KILLED" if interrupted else "FAILED")


def _numbers(record: Record) -> dict[str, float]:
    """All numbers except the epoch, which is their step."""
    return {
        _name(key): float(value)
        for key, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "epoch"
    }


def _texts(record: Record) -> dict[str, str]:
    return {_name(key): value for key, value in record.items() if isinstance(value, str)}


def _name(key: str) -> str:
    return key.replace(":", "_")


def _table(values: Mapping[str, object]) -> str:
    """A Markdown table, which TensorBoard renders."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in values.items())
    return f"| setting | value |\n|---|---|\n{rows}"


def _missing(writer: str, package: str, extra: str) -> ImportError:
    return ImportError(f"{writer} needs {package}, which is not installed: pip install 'bochner[{extra}]'.")
