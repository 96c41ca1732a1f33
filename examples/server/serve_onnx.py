"""Serve an ONNX file of `export_onnx` by FastAPI and ONNX Runtime, without bochner or torch.

Run `python examples/server/serve_onnx.py people.onnx --port 8000`; it needs `pip install fastapi uvicorn onnxruntime`.
Requests have the form that `mlflow models serve` takes, too:

    curl localhost:8000/invocations -H 'Content-Type: application/json' \
      -d '{"dataframe_records": [{"age": 39, "job": "nurse"}]}'

Dates are seconds since 1970 in UTC. A request that cannot be read is answered with code 400 and a message.
"""

import argparse
from typing import Any

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, HTTPException

TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(string)": object}
MAX_ROWS = 10_000


class Server:
    """One ONNX Runtime session, which many threads may use at a time."""

    def __init__(self, path: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # requests run side by side
        self.session = onnxruntime.InferenceSession(path, options)
        self.types = {node.name: TYPES[node.type] for node in self.session.get_inputs()}

    def predict(self, request: dict[str, Any]) -> dict[str, Any]:
        """Labels and probabilities, or scores, of the rows of a request."""
        rows = request.get("dataframe_records")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise HTTPException(400, "dataframe_records must be a list of rows, each an object of values by column.")
        if len(rows) > MAX_ROWS:
            raise HTTPException(400, f"dataframe_records must have at most {MAX_ROWS:,} rows, got {len(rows):,}.")
        inputs = {name: column(name, dtype, rows) for name, dtype in self.types.items()}
        outputs = {node.name: node for node in self.session.get_outputs()}
        names = [name for name in ("label", "probabilities", "scores") if name in outputs]
        values = self.session.run(names, inputs)
        return {name: value.tolist() for name, value in zip(names, values, strict=True)}


def column(name: str, dtype: Any, rows: list[dict[str, Any]]) -> np.ndarray:
    """A column [n, 1] of the rows; null is a missing value."""
    values = [row.get(name, ...) for row in rows]
    if ... in values:
        raise HTTPException(400, f"row {values.index(...)} has no column {name!r}.")
    if dtype is object:
        values = ["" if value is None else str(value) for value in values]
    else:
        for row, value in enumerate(values):
            if value is not None and not isinstance(value, int | float):
                raise HTTPException(400, f"column {name!r} must hold numbers, got {value!r} in row {row}.")
        values = [np.nan if value is None else value for value in values]
    return np.array(values, dtype=dtype)[:, None]


def make_app(path: str) -> FastAPI:
    """The application that serves the ONNX file at `path`."""
    app, server = FastAPI(), Server(path)
    app.post("/invocations")(server.predict)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    uvicorn.run(make_app(arguments.model), port=arguments.port, access_log=False)
