"""Predictions by Ray Data, Spark and Dask: equal to those of one process, by models that are loaded once per worker."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import bochner
from bochner import KernelClassifier, KernelRegressor
from bochner.estimators import batch
from bochner.estimators.batch import BatchPredictor, output_types, predict_frame

NUM_ROWS = 300


def people(num_rows: int = NUM_ROWS) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    job = rng.choice(["clerk", "nurse", "pilot", None], num_rows)
    age = rng.integers(18, 70, num_rows).astype(float)
    income = np.where((job == "pilot") | (age > 60), "high", "low")
    age[::7] = np.nan
    return pandas.DataFrame(
        {
            "who": [f"p{row:04}" for row in range(num_rows)],
            "job": job,
            "joined": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, num_rows), unit="D"),
            "age": age,
            "income": income,
        }
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    model = KernelClassifier(preset="fast", random_state=0).fit(people(120).drop(columns="who"), target="income")
    bochner.save(model, path)
    return path


@pytest.fixture(scope="module")
def expected(path: Path) -> pandas.DataFrame:
    """The predictions of one process for all rows at once."""
    model, rows = bochner.load(path), people()
    X = rows[["job", "joined", "age"]]
    p = model.predict_proba(X)
    return pandas.DataFrame({"who": rows["who"], "prediction": model.predict(X), "p(high)": p[:, 0], "p(low)": p[:, 1]})


def assert_equal(result: pandas.DataFrame, expected: pandas.DataFrame) -> None:
    """Equal to 1e-6 in any order of the rows."""
    assert list(result.columns[:4]) == list(expected.columns)
    result = result.sort_values("who")
    assert result["who"].tolist() == expected["who"].tolist()
    assert result["prediction"].tolist() == expected["prediction"].tolist()
    names = ["p(high)", "p(low)"]
    np.testing.assert_allclose(result[names].to_numpy(float), expected[names].to_numpy(float), rtol=0, atol=1e-6)


class CountingPredictor(BatchPredictor):
    """Adds the process and the number of models that it has loaded."""

    def __call__(self, frame: Any) -> Any:
        result = super().__call__(frame)
        return result.assign(process=os.getpid(), loaded=batch._loaded.cache_info().misses)


# -- one process -----------------------------------------------------------------------------------------------


def test_parts_of_any_size_give_the_predictions_of_all_rows(path: Path, expected: pandas.DataFrame) -> None:
    predictor, rows = BatchPredictor(path, keep=["who"]), people()
    parts = [rows[:1], rows[1:1], rows[1:200], rows[200:]]
    result = pandas.concat(predictor.map_frames(parts))
    assert result.index.equals(rows.index)
    assert_equal(result, expected)


def test_an_index_with_equal_labels_stays(path: Path, expected: pandas.DataFrame) -> None:
    rows = people().set_index(np.zeros(NUM_ROWS, dtype=int))
    assert_equal(BatchPredictor(path, keep=["who"])(rows), expected)


def test_a_frame_without_rows_has_the_columns_and_types_of_predictions(path: Path) -> None:
    predictor, rows = BatchPredictor(path, keep=["who"]), people()
    empty, full = predictor(rows[:0]), predictor(rows)
    assert len(empty) == 0
    assert empty.dtypes.to_dict() == full.dtypes.to_dict()


def test_pickled_it_is_a_path_and_unpickled_it_loads_once(path: Path) -> None:
    predictor = BatchPredictor(path)
    stored = pickle.dumps(predictor)
    assert len(stored) < 1000
    batch._loaded.cache_clear()
    copies = [pickle.loads(stored) for _ in range(3)]
    for copy in copies:
        copy(people(5))
    assert batch._loaded.cache_info().misses == 1


def test_a_changed_file_is_loaded_again(path: Path, tmp_path: Path) -> None:
    rows, file = people(40), tmp_path / "model.safetensors"
    file.write_bytes(path.read_bytes())
    predictor = BatchPredictor(file)
    first = predictor(rows)["prediction"].tolist()
    constant = KernelRegressor(preset="fast", random_state=0).fit(rows[["job", "joined", "age"]], np.ones(40))
    bochner.save(constant, file)
    os.utime(file, ns=(0, 10**9))  # whatever the resolution of the clock
    assert first != predictor(rows)["prediction"].tolist()
    np.testing.assert_allclose(predictor(rows)["prediction"], 1, atol=1e-3)


def test_the_directory_of_bochner_train(path: Path, expected: pandas.DataFrame) -> None:
    assert_equal(BatchPredictor(path.parent, keep=["who"])(people()), expected)


def test_several_targets_of_a_table() -> None:
    rows = people(60)
    y = np.column_stack([rows["age"].fillna(40), rows.index])
    model = KernelRegressor(preset="fast", random_state=0).fit(rows[["job", "age"]], y)
    result = predict_frame(model, rows)
    assert list(result) == list(output_types(model)) == ["prediction 0", "prediction 1"]
    np.testing.assert_allclose(result.to_numpy(), model.predict(rows[["job", "age"]]))


def test_several_labels() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    model = KernelClassifier(preset="fast", random_state=0).fit(X, (X > 0).astype(int))
    result = predict_frame(model, X)
    assert list(result) == list(output_types(model)) == ["label 0", "label 1", "p(0)", "p(1)"]
    np.testing.assert_array_equal(result[["label 0", "label 1"]], model.predict(X))
    np.testing.assert_array_equal(result[["p(0)", "p(1)"]], model.predict_proba(X))


def test_bad_arguments_are_named(path: Path, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="keep must be a list of column names, got the text 'who'"):
        BatchPredictor(path, keep="who")
    with pytest.raises(ValueError, match=r"keep must not name columns of the predictions, got \['prediction'\]"):
        BatchPredictor(path, keep=["prediction"])
    with pytest.raises(ValueError, match=r"keep must name columns of the input, .*, got \['name'\]"):
        BatchPredictor(path, keep=["name"])(people(3))
    with pytest.raises(FileNotFoundError, match="absent"):
        BatchPredictor(tmp_path / "absent")
    bochner.save(bochner.kernels.Gaussian(), tmp_path / "kernel.safetensors")
    with pytest.raises(ValueError, match="must hold a classifier or regressor, got Gaussian"):
        BatchPredictor(tmp_path / "kernel.safetensors")


# -- real engines ----------------------------------------------------------------------------------------------


def test_a_worker_of_dask_loads_the_model_once(path: Path, expected: pandas.DataFrame) -> None:
    frames = pytest.importorskip("dask.dataframe", reason="needs dask[dataframe]")
    distributed = pytest.importorskip("distributed", reason="needs bochner[cluster]")
    rows = frames.from_pandas(people(), npartitions=6)
    predictor = CountingPredictor(path, keep=["who"])
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        result = rows.map_partitions(predictor, meta=predictor(people()[:0])).compute()
    assert_equal(result, expected)
    assert os.getpid() not in set(result["process"])
    assert set(result["loaded"]) == {1}


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="needs bochner[ray]")
    pytest.importorskip("ray.data", reason="needs bochner[ray]")
    variables = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": variables})
    yield ray
    ray.shutdown()


def test_ray_data(ray: Any, path: Path, expected: pandas.DataFrame) -> None:
    rows = ray.data.from_pandas(people()).repartition(6)
    result = rows.map_batches(
        CountingPredictor,
        fn_constructor_args=[path],
        fn_constructor_kwargs={"keep": ["who"]},
        batch_format="pandas",
        batch_size=32,
        compute=ray.data.ActorPoolStrategy(size=2),
    ).to_pandas()
    assert_equal(result, expected)
    assert os.getpid() not in set(result["process"])
    assert set(result["loaded"]) == {1}


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="needs bochner[spark]")
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "PYSPARK_PYTHON": sys.executable}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
        session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        yield session
        session.stop()


def test_spark(spark: Any, path: Path, expected: pandas.DataFrame) -> None:
    rows = spark.createDataFrame(people()).repartition(6)
    predictor = CountingPredictor(path, keep=["who"])
    schema = predictor.spark_schema(rows.schema)
    assert schema == "`who` string, `prediction` string, `p(high)` double, `p(low)` double"
    result = rows.mapInPandas(predictor.map_frames, schema + ", process bigint, loaded bigint").toPandas()
    assert_equal(result, expected)
    assert os.getpid() not in set(result["process"])
    assert set(result["loaded"]) == {1}
