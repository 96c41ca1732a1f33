"""The first hour of a new user: whether each step works, and how long it takes.

    python -m benchmarks.first_hour adult.parquet --target income

builds the wheel, installs it into an empty environment with `constraints.txt`, and there trains on the table and on its
CSV export (semicolons, decimal commas, a column of identifiers), evaluates, predicts with identifiers, writes a report,
sends a request to `mlflow models serve`, and runs the ONNX file in ONNX Runtime. `--environment DIR` keeps the
environment and reuses what is installed there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
START_SECONDS = 300.0

PREPARE = """
import pandas
rows = pandas.read_parquet({table!r}).sample(frac=1, random_state=0)
rows.insert(0, "id", [f"p{{i:06}}" for i in range(len(rows))])
number = rows.select_dtypes("number").columns[0]
rows[number] = rows[number] + 0.5  # a decimal comma in every row
test = rows[: len(rows) // 5]
rows[len(test):].to_csv("train.csv", sep=";", decimal=",", index=False)
test.to_csv("test.csv", sep=";", decimal=",", index=False)
test.drop(columns={target!r}).to_csv("new.csv", sep=";", decimal=",", index=False)
"""

SAVE = """
import bochner
from bochner.estimators.mlflow_model import save_model
save_model(bochner.load("out/train_csv/model.safetensors"), "served")
"""

ROW = """
import pandas
print(pandas.read_csv("new.csv", sep=";", decimal=",", nrows=1).to_json(orient="records"))
"""

ONNX = """
import bochner, numpy, onnxruntime, pandas
model = bochner.load("out/train_csv/model.safetensors")
model.export_onnx("model.onnx")
rows = pandas.read_csv("new.csv", sep=";", decimal=",", nrows=200)
session = onnxruntime.InferenceSession("model.onnx")
inputs = {}
for node in session.get_inputs():
    is_text = node.type == "tensor(string)"
    column = rows[node.name].fillna("").astype(object) if is_text else rows[node.name].astype("float32")
    inputs[node.name] = column.to_numpy()[:, None]
outputs = dict(zip([node.name for node in session.get_outputs()], session.run(None, inputs)))
known = [name for name in model.feature_names_in_ if name in rows]
p = model.predict_proba(rows[known])
print("largest difference of probabilities", numpy.abs(outputs["probabilities"] - p).max())
assert numpy.abs(outputs["probabilities"] - p).max() < 0.01
"""


class Hour:
    """Runs steps in a directory, with the programs of an environment, and prints the outcome of each."""

    def __init__(self, directory: Path, environment: Path) -> None:
        self.directory, self.bin, self.failures = directory, environment / "bin", 0
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        self.variables = {**variables, "PATH": f"{self.bin}{os.pathsep}{variables['PATH']}"}

    def step(self, name: str, run: Callable[[], str]) -> None:
        start, cpu = time.perf_counter(), children_seconds()
        try:
            shown, outcome = run(), "works"
        except (subprocess.CalledProcessError, OSError, RuntimeError, KeyError, ValueError) as error:
            self.failures += 1
            output = getattr(error, "stdout", None) or ""
            shown, outcome = f"{error}\n{output[-1500:]}", "FAILS"
        seconds = time.perf_counter() - start
        print(f"{name:<34} {outcome} {seconds:8.1f} s {children_seconds() - cpu:8.1f} CPU s", flush=True)
        for line in shown.splitlines():
            print(f"    {line}", flush=True)

    def run(self, *command: str, lines: int = 0, match: str = "") -> str:
        """Run a command and return the lines of its output that contain `match`, or the last ones."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.directory,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
        )
        shown = done.stdout.splitlines()
        return "\n".join([line for line in shown if match in line] if match else shown[len(shown) - lines :])

    def python(self, program: str) -> str:
        return self.run("python", "-c", program, lines=1)

    def request(self) -> str:
        """One row, sent to `mlflow models serve`."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.python(SAVE)
        log = (self.directory / "serve.log").open("w")
        command = ["mlflow", "models", "serve", "-m", "served", "--env-manager", "local", "-p", str(port)]
        server = subprocess.Popen(
            command, cwd=self.directory, env=self.variables, stdout=log, stderr=log, start_new_session=True
        )
        body = json.dumps({"dataframe_records": json.loads(self.python(ROW))}).encode()
        address = f"http://127.0.0.1:{port}/invocations"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        try:
            end = time.monotonic() + START_SECONDS
            while True:
                try:
                    return str(urllib.request.urlopen(request).read().decode())
                except urllib.error.HTTPError as error:
                    raise RuntimeError(f"{error.code}: {error.read().decode()}") from error
                except urllib.error.URLError as error:
                    if time.monotonic() > end or server.poll() is not None:
                        text = (self.directory / "serve.log").read_text()
                        raise RuntimeError(f"the server did not start: {text}") from error
                    time.sleep(0.5)
        finally:
            os.killpg(server.pid, 15)
            server.wait()
            log.close()


def children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("table", type=Path, help="a Parquet file")
    parser.add_argument("--target", required=True)
    parser.add_argument("--environment", type=Path, help="a directory; by default a temporary one")
    parser.add_argument("--options", nargs="*", default=[], help="of bochner train, such as --options=--preset=fast")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        environment = (options.environment or directory / "environment").absolute()
        hour = Hour(directory, environment)
        if not environment.exists():
            hour.step("an empty environment", lambda: hour.run(sys.executable, "-m", "venv", str(environment)))
        pip = ["python", "-m", "pip", "install", "-q"]
        pinned = [*pip, "-c", str(ROOT / "constraints.txt")]
        wheel = ["python", "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory / "dist"), str(ROOT)]
        hour.step("the wheel", lambda: hour.run(*wheel))
        wheels = [str(file) for file in (directory / "dist").glob("*.whl")]
        hour.step("pip install torch", lambda: hour.run(*pinned, "torch"))
        hour.step("pip install bochner", lambda: hour.run(*pinned, *wheels))
        hour.step("pip install bochner[onnx,plot]", lambda: hour.run(*pinned, *(f"{w}[onnx,plot]" for w in wheels)))
        hour.step("pip install mlflow", lambda: hour.run(*pip, "mlflow"))  # which needs an older pyarrow
        table = str(options.table.absolute())
        shutil.copy(table, directory / "table.parquet")
        hour.step("a CSV file with semicolons", lambda: hour.python(PREPARE.format(table=table, target=options.target)))
        train = ["bochner", "train", "--target", options.target, *options.options]
        hour.step("train, Parquet", lambda: hour.run(*train, "table.parquet", match="accuracy"))
        hour.step("train, CSV", lambda: hour.run(*train, "train.csv", match="accuracy"))
        hour.step("evaluate", lambda: hour.run("bochner", "evaluate", "out/train_csv", "test.csv", match="accuracy"))
        predict = ["bochner", "predict", "out/train_csv", "new.csv", "--id", "id", "--probabilities"]
        hour.step("predict with identifiers", lambda: hour.run(*predict, "--output", "predictions.csv", lines=1))
        report = ["bochner", "report", "out/train_csv", "test.csv"]
        hour.step("report", lambda: hour.run(*report, lines=1))
        hour.step("a request to mlflow models serve", hour.request)
        hour.step("ONNX Runtime", lambda: hour.python(ONNX))
        sys.exit(min(hour.failures, 1))


if __name__ == "__main__":
    main()
