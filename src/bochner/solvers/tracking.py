"""Writers that send each epoch of `train` to TensorBoard or MLflow. The step of every number is the epoch, from 1.

A metric's parameter is joined by an underscore, since neither tool takes a colon everywhere: erll:0.5 is erll_0.5.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from types import TracebackType
from typing import Any, Self

from bochner.solvers.settings import SGDSettings

Record = Mapping[str, Any]


class TensorBoardWriter:
    """Epochs as TensorBoard events in `folder`: numbers as scalars, words (the verdict) and the recipe as text.

    Events are on disk after every epoch. Training that is resumed goes on in the same folder; an epoch that a kill
    made the loop repeat stands there twice. Needs `pip install bochner[tensorboard]`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, TensorBoardWriter(folder) as writer:
    ...     writer({"epoch": 1, "rate": 4.0, "decision": "go on", "ce": 0.7})
    """

    def __init__(self, checkpoint_dir: str | PathLike[str], *, settings: SGDSettings | None = None) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise _missing("TensorBoardWriter", "tensorboard", "tensorboard") from error
        self._writer = SummaryWriter(str(checkpoint_dir))
        if settings is not None:
            self._writer.add_text("settings", _table(asdict(settings)))
            self._writer.flush()

    def __call__(self, record: Record) -> None:
        for name, value in _numbers(record).items():
            self._writer.add_scalar(name, value, record["epoch"])
        for name, word in _words(record).items():
            self._writer.add_text(name, word, record["epoch"])
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


class MLflowWriter:
    """One MLflow run: numbers as metrics, words as tags (a tag keeps its last value only), the recipe as parameters.

    Left by an exception, the run is marked FAILED, or KILLED by a keyboard interrupt; otherwise FINISHED. Every writer
    is a run of its own: training that is resumed begins a new one at the epoch it had come to. Nothing global is set.
    Needs `pip install bochner[mlflow]`.

    Args:
        run_name: Its name; None for one that MLflow makes up.
        experiment: The experiment it belongs to, made if there is none of that name.
        tracking_uri: A database such as "sqlite:///runs.db" or a server; None for MLflow's own setting.
        recipe: Written as parameters.
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
        found = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if found is None else found.experiment_id
        self.run_id: str = self._client.create_run(place, run_name=run_name).info.run_id
        if settings is not None:
            self._client.log_batch(
                self.run_id, params=[Param(key, str(value)) for key, value in asdict(settings).items()]
            )

    def __call__(self, record: Record) -> None:
        from mlflow.entities import Metric, RunTag

        now = int(1000 * time.time())
        metrics = [Metric(name, value, now, record["epoch"]) for name, value in _numbers(record).items()]
        tags = [RunTag(name, value) for name, value in _words(record).items()]
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
    """All numbers but the epoch, which is their step."""
    return {
        _name(key): float(value)
        for key, value in record.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and key != "epoch"
    }


def _words(record: Record) -> dict[str, str]:
    return {_name(key): value for key, value in record.items() if isinstance(value, str)}


def _name(key: str) -> str:
    return key.replace(":", "_")


def _table(values: Mapping[str, object]) -> str:
    """Markdown, which is what TensorBoard shows text as."""
    rows = "".join(f"| {name} | {value} |\n" for name, value in values.items())
    return f"| setting | value |\n|---|---|\n{rows}"


def _missing(writer: str, package: str, extra: str) -> ImportError:
    return ImportError(f"{writer} needs {package}, which is not installed: pip install 'bochner[{extra}]'.")
