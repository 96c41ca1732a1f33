"""The server of ONNX Runtime in examples/server: answers are those of the estimator, bad requests are named."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas
import pytest

from bochner import KernelClassifier

SERVER = Path(__file__).parents[1] / "examples" / "server"


def test_serve_onnx(tmp_path: Path) -> None:
    for package in ("fastapi", "uvicorn", "httpx", "onnxruntime", "onnx"):
        pytest.importorskip(package, reason="pip install fastapi uvicorn httpx onnxruntime onnx")
    from fastapi.testclient import TestClient

    rows = pandas.DataFrame({"age": np.arange(40.0), "job": ["clerk", "nurse"] * 20})
    model = KernelClassifier(preset="fast", random_state=0).fit(rows, np.where(rows["age"] > 20, "old", "young"))
    model.export_onnx(tmp_path / "model.onnx")
    spec = importlib.util.spec_from_file_location("serve_onnx", SERVER / "serve_onnx.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    client = TestClient(module.make_app(str(tmp_path / "model.onnx")))

    def post(*records: object) -> tuple[int, dict[str, object]]:
        answer = client.post("/invocations", json={"dataframe_records": list(records)})
        return answer.status_code, answer.json()

    status, answer = post({"age": 3, "job": "nurse", "name": "Ann"}, {"age": None, "job": None})
    asked = pandas.DataFrame({"age": [3, np.nan], "job": ["nurse", None]})
    assert status == 200
    assert answer["label"] == model.predict(asked).tolist()
    np.testing.assert_allclose(answer["probabilities"], model.predict_proba(asked), atol=1e-3)
    assert post({"age": 3}) == (400, {"detail": "row 0 has no column 'job'."})
    for column, value, kind in (
        ("age", "old", "finite numbers"),
        ("age", [1], "finite numbers"),
        ("age", 10**400, "finite numbers"),
        ("job", {"a": 1}, "text"),
    ):
        message = f"column '{column}' must hold {kind}, got {value!r} in row 1."
        good = {"age": 3, "job": "nurse"}
        assert post(good, {**good, column: value}) == (400, {"detail": message})
    assert post()[0] == post(1)[0] == 400
    many = [{"age": float(age % 40), "job": "clerk"} for age in range(100)]  # predicted in another thread
    assert post(*many)[1]["label"] == model.predict(pandas.DataFrame(many)).tolist()
    for body in (b"{age", b"[1]", b"\xff"):
        assert client.post("/invocations", content=body).status_code == 400
