"""Writers: the tracking libraries read back the records of the loop."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from bochner.solvers.optimizers import SGDSettings
from bochner.solvers.sgd import train
from bochner.solvers.tracking import MLflowWriter, TensorBoardWriter, check_tracking, make_callbacks
from tests.solvers.runs import model, sources

SETTINGS = SGDSettings(batch_size=64, learning_rate=4.0, max_epochs=3, criterion="erll:0.5")
DIVERGED = {"epoch": 7, "rate": 2, "decision": "revert and halve", "ce": math.nan, "stopped": True, "note": None}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> str:
    """One store for all tests, since creating its tables takes a second."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/runs.db"


def series(history: list[dict[str, Any]], name: str) -> list[tuple[int, float]]:
    return [(record["epoch"], record[name]) for record in history]


class TestTensorBoard:
    """Events on disk, read by TensorBoard's own reader."""

    @pytest.fixture(autouse=True)
    def _needs_tensorboard(self) -> None:
        pytest.importorskip("tensorboard", reason="needs bochner[tensorboard]")

    @staticmethod
    def read(folder: Path):
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder))
        events.Reload()
        return events

    @staticmethod
    def texts(events, name: str) -> list[tuple[int, str]]:
        found = events.Tensors(f"{name}/text_summary")
        return [(event.step, event.tensor_proto.string_val[0].decode()) for event in found]

    def test_a_run_is_read_back(self, tmp_path: Path) -> None:
        with TensorBoardWriter(tmp_path, settings=SETTINGS) as writer:
            history = train(model(), *sources(), SETTINGS, verbose=False, callbacks=[writer])
        events = self.read(tmp_path)
        names = {name.replace(":", "_"): name for name in history[0] if name not in ("epoch", "decision")}
        assert set(events.Tags()["scalars"]) == set(names) > {"erll_0.5", "rate", "ce"}
        for tag, name in names.items():
            assert [(e.step, pytest.approx(e.value, rel=1e-6)) for e in events.Scalars(tag)] == series(history, name)
        assert self.texts(events, "decision") == series(history, "decision")
        ((_, settings),) = self.texts(events, "settings")
        assert all(f"| {name} | {value} |" in settings for name, value in asdict(SETTINGS).items())

    def test_events_are_on_disk_before_the_end(self, tmp_path: Path) -> None:
        writer = TensorBoardWriter(tmp_path)
        writer(DIVERGED)
        events = self.read(tmp_path)
        writer.close()
        assert events.Tags()["scalars"] == ["rate", "ce"]
        ((rate,), (ce,)) = events.Scalars("rate"), events.Scalars("ce")
        assert (rate.step, rate.value, math.isnan(ce.value)) == (7, 2.0, True)

    def test_another_writer_continues_in_the_directory(self, tmp_path: Path) -> None:
        for epoch in (1, 2):
            with TensorBoardWriter(tmp_path) as writer:
                writer({"epoch": epoch, "ce": 1 / epoch})
        assert [(e.step, e.value) for e in self.read(tmp_path).Scalars("ce")] == [(1, 1.0), (2, 0.5)]


class TestMLflow:
    """A run in a temporary SQLite store, read by MLflow's own client."""

    @pytest.fixture(autouse=True)
    def _needs_mlflow(self, monkeypatch, tmp_path: Path) -> None:
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        monkeypatch.chdir(tmp_path)
        for library in ("mlflow", "sqlalchemy", "alembic"):
            pytest.importorskip(library, reason="needs bochner[mlflow]")

    @staticmethod
    def client(store: str):
        from mlflow.tracking import MlflowClient

        return MlflowClient(store)

    def test_a_run_is_read_back(self, store: str) -> None:
        arguments = {"run_name": "rings", "experiment": "three classes", "tracking_uri": store, "settings": SETTINGS}
        with MLflowWriter(**arguments) as writer:
            history = train(model(), *sources(), SETTINGS, verbose=False, callbacks=[writer])
        client = self.client(store)
        run = client.get_run(writer.run_id)
        assert (run.info.run_name, run.info.status) == ("rings", "FINISHED")
        assert client.get_experiment(run.info.experiment_id).name == "three classes"
        assert run.data.params == {name: str(value) for name, value in asdict(SETTINGS).items()}
        assert run.data.tags["decision"] == history[-1]["decision"]
        names = {name.replace(":", "_"): name for name in history[0] if name not in ("epoch", "decision")}
        assert set(run.data.metrics) == set(names) > {"erll_0.5", "rate", "ce"}
        for key, name in names.items():
            found = client.get_metric_history(writer.run_id, key)
            assert [(metric.step, metric.value) for metric in found] == series(history, name)

    def test_runs_share_an_experiment_and_nothing_is_left_elsewhere(self, store: str, tmp_path: Path) -> None:
        import mlflow

        before = mlflow.get_tracking_uri()
        writers = [MLflowWriter(experiment="shared", tracking_uri=store) for _ in range(2)]
        for writer in writers:
            writer.close()
        runs = [self.client(store).get_run(writer.run_id).info for writer in writers]
        assert runs[0].experiment_id == runs[1].experiment_id
        assert runs[0].run_id != runs[1].run_id
        assert mlflow.get_tracking_uri() == before
        assert list(tmp_path.iterdir()) == []

    def test_a_diverged_epoch(self, store: str) -> None:
        with MLflowWriter(tracking_uri=store) as writer:
            writer(DIVERGED)
        run = self.client(store).get_run(writer.run_id)
        assert set(run.data.metrics) == {"rate", "ce"}
        (ce,) = self.client(store).get_metric_history(writer.run_id, "ce")
        assert (ce.step, math.isnan(ce.value)) == (7, True)

    @pytest.mark.parametrize(("error", "status"), [(FloatingPointError, "FAILED"), (KeyboardInterrupt, "KILLED")])
    def test_how_it_ended(self, store: str, error: type[BaseException], status: str) -> None:
        with pytest.raises(error), MLflowWriter(tracking_uri=store) as writer:
            raise error
        assert self.client(store).get_run(writer.run_id).info.status == status

    def test_a_second_recipe_is_a_second_run(self, store: str) -> None:
        for settings in (SETTINGS, replace(SETTINGS, batch_size=32)):
            with MLflowWriter(tracking_uri=store, settings=settings) as writer:
                pass
            assert self.client(store).get_run(writer.run_id).data.params["batch_size"] == str(settings.batch_size)


def test_a_missing_library_names_its_extra(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(ImportError, match=r"TensorBoardWriter needs tensorboard.*pip install 'bochner\[tensorboard\]'"):
        TensorBoardWriter(tmp_path)
    with pytest.raises(ImportError, match=r"MLflowWriter needs mlflow-skinny.*pip install 'bochner\[mlflow\]'"):
        MLflowWriter()


class FakeClient:
    """The part of MLflow's client that `MLflowWriter` uses."""

    log: ClassVar[list[tuple[str, object]]] = []

    def __init__(self, uri: str | None) -> None:
        self.log.append(("uri", uri))

    def get_experiment_by_name(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(experiment_id=name)

    def create_run(self, experiment_id: str, run_name: str | None) -> SimpleNamespace:
        return SimpleNamespace(info=SimpleNamespace(run_id=f"{experiment_id}/{run_name}"))

    def log_batch(self, run_id: str, **batch: list[object]) -> None:
        self.log += [(run_id, name) for name in batch]

    def set_terminated(self, run_id: str, status: str) -> None:
        self.log.append((run_id, status))


def test_tracking_by_name(monkeypatch, tmp_path: Path) -> None:
    entities = SimpleNamespace(**{name: lambda *values: values for name in ("Param", "Metric", "RunTag")})
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", SimpleNamespace(MlflowClient=FakeClient))
    with make_callbacks("mlflow:sqlite:///runs.db", settings=SETTINGS, run_name="rings") as callbacks:
        history = train(model(), *sources(), SETTINGS, verbose=False, callbacks=callbacks)
    run = "Default/rings"
    epochs = [(run, "metrics"), (run, "tags")] * len(history)
    assert FakeClient.log == [("uri", "sqlite:///runs.db"), (run, "params"), *epochs, (run, "FINISHED")]
    with make_callbacks("mlflow") as (callback,):
        assert isinstance(callback, MLflowWriter)
    with make_callbacks(f"tensorboard:{tmp_path}") as (callback,):
        assert isinstance(callback, TensorBoardWriter)
    second = SimpleNamespace(is_first=False)
    for tracking, group in ((None, None), ("mlflow", second)):
        with make_callbacks(tracking, group=group) as callbacks:
            assert callbacks == []


@pytest.mark.parametrize("tracking", ["", "tensorboard", "wandb:project"])
def test_unknown_tracking_is_refused(tracking: str) -> None:
    with pytest.raises(ValueError, match=r"tracking.*tensorboard:DIR.*mlflow:URI"):
        check_tracking(tracking)
