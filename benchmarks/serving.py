"""Load test of a served model: ONNX Runtime in FastAPI (`examples/server/serve_onnx.py`) and `mlflow models serve`.

    python -m benchmarks.serving                    # 100,000 requests each; writes a part of docs/reliability.md
    python -m benchmarks.serving --requests 200     # a smoke test; does not write the page

The servers need `pip install fastapi 'uvicorn[standard]' onnxruntime mlflow`. Requests have one row each.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import psutil

from benchmarks.measure import machine
from benchmarks.report import write_section
from bochner import KernelClassifier
from bochner.estimators.mlflow_model import save_model

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
CONNECTIONS = 4
NUM_FEATURES = 4096
START_SECONDS = 300.0
MALFORMED: dict[str, Any] = {
    "a column is missing": {"dataframe_records": [{"age": 30}]},
    "text in place of a number": {"dataframe_records": [{"age": "old", "hours": 40, "job": "a", "town": "a"}]},
    "a list in place of a number": {"dataframe_records": [{"age": [1], "hours": 40, "job": "a", "town": "a"}]},
    "no rows": {"dataframe_records": []},
    "another form": {"rows": 1},
    "no JSON": b"{age",
}


class Load(NamedTuple):
    """Measurements of a number of requests."""

    requests: int
    errors: int
    seconds: float
    cpu_seconds: float  # of the server
    latencies: list[float]

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.latencies, share))


def people(num_rows: int) -> pandas.DataFrame:
    """Numbers, a category of 12 levels and one of 50, and a target that depends on all of them."""
    rng = np.random.default_rng(0)
    age, hours = rng.integers(18, 80, num_rows), rng.normal(40, 10, num_rows).round(1)
    job, town = rng.integers(12, size=num_rows), rng.integers(50, size=num_rows)
    income = np.sin(age / 9) + hours / 20 + job % 3 + (town % 7) / 7 + rng.normal(0, 0.5, num_rows)
    columns = {"age": age, "hours": hours, "job": [f"job {j}" for j in job], "town": [f"town {t}" for t in town]}
    return pandas.DataFrame({**columns, "income": np.where(income > np.median(income), "high", "low")})


def fitted(num_features: int) -> KernelClassifier:
    model = KernelClassifier(
        preset=None, kernel="gaussian", solver="sgd", n_components=num_features, standardize=True, random_state=0
    )
    return model.set_params(solver_params={"max_epochs": 2}).fit(people(4000), target="income")


@contextmanager
def served(command: list[str], port: int) -> Iterator[psutil.Process]:
    """A server process, stopped at the end."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # mlflow starts uvicorn by name
    options: dict[str, Any] = {"env": {**os.environ, "PATH": path}, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, **options)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout or []), daemon=True)
    reader.start()
    try:
        end = time.monotonic() + START_SECONDS
        while not is_open(port):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{' '.join(command)} did not start:\n{''.join(lines[-20:])}")
            time.sleep(0.2)
        yield psutil.Process(process.pid)
    finally:
        if process.poll() is None:
            for child in [*psutil.Process(process.pid).children(recursive=True), process]:
                child.terminate()
        process.wait()


def is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def post(connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
    connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, response.read()


def load(port: int, server: psutil.Process, bodies: list[bytes], count: int, rate: float | None) -> Load:
    """Send `count` requests over several connections: one after the other, or `rate` of them per second.

    With a rate, a latency counts from the time at which the request was due, so that waiting requests count for a
    server that falls behind.
    """
    latencies: list[list[float]] = [[] for _ in range(CONNECTIONS)]
    errors = [0] * CONNECTIONS
    start, before = time.perf_counter(), cpu_seconds(server)

    def send(worker: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        for number in range(worker, count, CONNECTIONS):
            due = time.perf_counter() if rate is None else start + number / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            status, _ = post(connection, bodies[number % len(bodies)])
            latencies[worker].append(time.perf_counter() - due)
            errors[worker] += status != 200

    threads = [threading.Thread(target=send, args=(worker,)) for worker in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    flat = [latency for part in latencies for latency in part]
    return Load(count, sum(errors), seconds, cpu_seconds(server) - before, flat)


def cpu_seconds(server: psutil.Process) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in [server, *server.children(recursive=True)])


def memory(server: psutil.Process) -> float:
    """MiB of the server with its children."""
    return sum(process.memory_info().rss for process in [server, *server.children(recursive=True)]) / 2**20


def answers(port: int) -> dict[str, str]:
    """The status code and message of the answers to malformed requests."""
    shown = {}
    for name, request in MALFORMED.items():
        body = request if isinstance(request, bytes) else json.dumps(request).encode()
        status, answer = post(http.client.HTTPConnection("127.0.0.1", port), body)
        content = json.loads(answer)
        message = content.get("message") or content["detail"]
        message = message if isinstance(message, str) else message[0]["msg"]
        message = message.rpartition("Error: ")[2].replace("\n", " ").replace("|", "\\|")
        shown[name] = f"{status}: {message[:117]}..." if len(message) > 120 else f"{status}: {message}"
    return shown


def measure(name: str, command: list[str], port: int, requests: int) -> dict[str, Any]:
    rows = people(1000).drop(columns="income")
    bodies = [json.dumps({"dataframe_records": [row]}).encode() for row in rows.to_dict("records")]
    with served(command, port) as server:
        load(port, server, bodies, min(requests, 500), None)  # warm
        first = memory(server)
        full = load(port, server, bodies, requests, None)
        last = memory(server)
        rate = full.requests / full.seconds / 2
        half = load(port, server, bodies, max(requests // 10, 100), rate)
        return {
            "server": name,
            "requests": full.requests,
            "errors": full.errors + half.errors,
            "a second": full.requests / full.seconds,
            "CPU ms": 1e3 * full.cpu_seconds / full.requests,
            "median": 1e3 * statistics.median(half.latencies),
            "p99": 1e3 * half.quantile(0.99),
            "first MiB": first,
            "last MiB": last,
            "answers": answers(port),
        }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--mlflow_requests", type=int, help="default: the same number")
    parser.add_argument("--num_features", type=int, default=NUM_FEATURES)
    parser.add_argument("--page", action="store_true", help="also write the page after fewer requests")
    options = parser.parse_args()
    host, model = machine(), fitted(options.num_features)
    with tempfile.TemporaryDirectory() as directory:
        model.export_onnx(f"{directory}/model.onnx")
        save_model(model, f"{directory}/mlflow")
        ports = free_port(), free_port()
        script = [sys.executable, str(ROOT / "examples" / "server" / "serve_onnx.py"), f"{directory}/model.onnx"]
        serve = [sys.executable, "-m", "mlflow", "models", "serve", "-m", f"{directory}/mlflow"]
        servers = [
            measure("ONNX Runtime in FastAPI", [*script, "--port", str(ports[0])], ports[0], options.requests),
            measure(
                "mlflow models serve",
                [*serve, "--env-manager", "local", "-p", str(ports[1])],
                ports[1],
                options.mlflow_requests or options.requests,
            ),
        ]
    text = page(servers, host, options.num_features)
    print(text)
    if options.page or options.requests >= parser.get_default("requests"):
        write_section(PAGE, text, command="python -m benchmarks.serving")


def page(servers: list[dict[str, Any]], host: dict[str, Any], num_features: int) -> str:
    rows = [
        f"| {row['server']} | {row['requests']:,} | {row['errors']} | {row['a second']:,.0f} | {row['CPU ms']:.2f} | "
        f"{row['median']:.1f} | {row['p99']:.1f} | {row['first MiB']:,.0f} | {row['last MiB']:,.0f} |"
        for row in servers
    ]
    answered = [
        f"| {name} | {servers[0]['answers'][name]} | {servers[1]['answers'][name]} |" for name in servers[0]["answers"]
    ]
    return PAGE_TEXT.format(
        **host, features=f"{num_features:,}", connections=CONNECTIONS, rows="\n".join(rows), answers="\n".join(answered)
    )


PAGE_TEXT = """# Servers

Written by `python -m benchmarks.serving`, commit {commit}; do not edit.

**Machine.** {cpu}, {cores} cores, load {load:.1f} before the run; Python {python}, torch {torch}. The client runs on
the same cores.

**Protocol.** A `KernelClassifier` of {features} random features on a table of two numbers and two text columns is
exported to ONNX and served by [`examples/server/serve_onnx.py`](deployment.md#a-server-of-onnx-runtime), and saved by
`save_model` and served by `mlflow models serve`. Requests of one row each are sent over {connections} connections, the
next one as soon as the last one is answered: *a second*, and *CPU ms*, the CPU time of the server for a request, which
other processes on the machine hardly change. Then requests are sent at half of that rate; the latencies, in ms, count
from the moment at which a request was due. Memory is the resident set of the server before the requests and after
them. Where the load is above the number of cores, requests a second and latencies are those of a busy machine.

| server | requests | errors | a second | CPU ms | median | 99th percentile | MiB before | MiB after |
|---|---:|---:|---:|---:|---:|---:|---:|---:|
{rows}

Malformed requests, and the answers:

| request | ONNX Runtime in FastAPI | mlflow models serve |
|---|---|---|
{answers}
"""


if __name__ == "__main__":
    main()
