"""Serve an ONNX file of `export_onnx` by FastAPI and ONNX Runtime, without bochner or torch.

Run `python examples/server/serve_onnx.py people.onnx --port 8000`; it needs `pip install fastapi 'uvicorn[standard]'
onnxruntime`. Requests have the form that `mlflow models serve` takes, too:

    curl localhost:8000/invocations -H 'Content-Type: application/json' \
      -d '{"dataframe_records": [{"age": 39, "job": "nurse"}]}'

Dates are seconds since 1970 in UTC. A request that cannot be read is answered with code 400 and a message.
"""

import argparse
import json
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(string)": object}
MAX_ROWS = 10_000
# A row takes some 50 microseconds, less than to hand the request to another thread.
ROWS_IN_EVENT_LOOP = 16


class Server:
    """One ONNX Runtime session, which many threads may use at a time."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # requests run side by side
        self.session = onnxruntime.InferenceSession(path, options)
        self.types = {node.name: TYPES[node.type] for node in self.session.get_inputs()}
        outputs = [node.name for node in self.session.get_outputs()]
        self.names = [name for name in ("label", "probabilities", "scores") if name in outputs]

    async def invocations(self, request: Request) -> Response:
        """Answer a request; the body is parsed here, since a model of its fields costs more than the prediction."""
        rows = records(await request.body())
        if len(rows) <= ROWS_IN_EVENT_LOOP:
            answer = self.predict(rows)
        else:
            answer = await run_in_threadpool(self.predict, rows)
        return Response(json.dumps(answer), media_type="application/json")

    def predict(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Labels and probabilities, or scores, of the rows."""
        inputs = {name: column(name, dtype, rows) for name, dtype in self.types.items()}
        values = self.session.run(self.names, inputs)
        return {name: value.tolist() for name, value in zip(self.names, values, strict=True)}


def records(body: bytes) -> list[dict[str, Any]]:
    """The rows of a request."""
    try:
        request = json.loads(body)
    except ValueError as error:
        raise HTTPException(400, f"the request must be JSON: {error}.") from error
    rows = request.get("dataframe_records") if isinstance(request, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise HTTPException(400, "dataframe_records must be a list of rows, each an object of values by column.")
    if len(rows) > MAX_ROWS:
        raise HTTPException(400, f"dataframe_records must have at most {MAX_ROWS:,} rows, got {len(rows):,}.")
    return rows


def column(name: str, dtype: Any, rows: list[dict[str, Any]]) -> np.ndarray:
    """A column [n, 1] of the rows; null is a missing value."""
    is_text = dtype is object
    limit = np.inf if is_text else float(np.finfo(dtype).max)
    values = []
    for number, row in enumerate(rows):
        value = row.get(name, ...)
        if value is ...:
            raise HTTPException(400, f"row {number} has no column {name!r}.")
        if value is None:
            value = "" if is_text else np.nan
        elif is_text and not isinstance(value, list | dict):
            value = str(value)
        elif is_text or not isinstance(value, int | float) or abs(value) > limit:
            kind = "text" if is_text else "finite numbers"
            raise HTTPException(400, f"column {name!r} must hold {kind}, got {value!r} in row {number}.")
        values.append(value)
    return np.array(values, dtype=dtype)[:, None]


def make_app(path: str) -> FastAPI:
    """The application that serves the ONNX file at `path`."""
    app, server = FastAPI(), Server(path)
    app.post("/invocations")(server.invocations)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(make_app(arguments.model), port=arguments.port, access_log=False)
