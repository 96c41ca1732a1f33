"""Fault tests of `bochner train`: killed, terminated, on changed data, concurrent with another run, out of resources.

    python -m benchmarks.reliability                 # 200 kills and the rest, about an hour; finished trials are kept
    python -m benchmarks.reliability --kills 20 --terms 10 --pairs 5 --minutes 15
    python -m benchmarks.reliability --kills 3 --configurations adam landmarks --folder /tmp/some

Writes reliability.json into the directory, and docs/reliability.md if that is the default directory; the page also
counts the damaged files of `python -m tests.fuzz`, from out/fuzz.json. Full disks are small file systems in memory and
need Linux with user namespaces (`unshare`); without them those trials are not run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import machine
from benchmarks.reliability_page import Trial, page

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "out" / "benchmarks" / "reliability", ROOT / "docs" / "reliability.md"
FUZZ = ROOT / "out" / "fuzz.json"
KILLS_PER_RUN = 3
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'

# A server that has imported everything forks the runs, so that trials do not wait for imports.
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["bochner.cli", "bochner.cli.train", "torch._dynamo"])

SGD = ["--preset=none", "--solver=sgd", "--n_components=128", "--batch_size=32", "--max_epochs=12", "--max_halvings=30"]
RATE = ["--learning_rate=0.05"]
LANDMARKS = ["--preset=none", "--n_components=400"]


@dataclass(frozen=True)
class Configuration:
    """The number of inputs of a data file, and options of `bochner train`."""

    num_inputs: int
    options: tuple[str, ...]
    is_table: bool = False


CONFIGURATIONS = {
    "2 inputs": Configuration(2, (*SGD, *RATE)),
    "20 inputs, even preconditioner rank": Configuration(20, (*SGD, *RATE, "--preconditioner_rank=40")),
    "64 inputs, odd preconditioner rank": Configuration(64, (*SGD, *RATE, "--preconditioner_rank=33")),
    "rate search": Configuration(20, (*SGD, "--n_components=257")),
    "blocks": Configuration(20, (*SGD, *RATE, "--num_blocks=2", "--max_epochs=6")),
    "bottleneck": Configuration(20, (*SGD, "--rank=2", "--learning_rate=2", "--preconditioner_rank=0")),
    "adam": Configuration(20, (*SGD, "--optimizer=adam", "--learning_rate=0.002", "--preconditioner_rank=0")),
    "agop": Configuration(20, (*SGD, *RATE, '--adapt={"method": "agop", "rounds": 4}')),
    "selection": Configuration(20, (*SGD, *RATE, "--selection=4")),
    "adapted basis": Configuration(20, (*SGD, *RATE, "--adapt=uab", "--max_epochs=4")),
    "bandwidth search": Configuration(20, (*SGD, *RATE, "--bandwidth=search", "--max_epochs=4")),
    "search of a preset": Configuration(2, (*SGD, *RATE, "--preset=fast")),
    "landmarks": Configuration(20, (*LANDMARKS, "--solver=landmarks", "--alpha=1e-8")),
    "newton": Configuration(20, (*LANDMARKS, "--solver=newton", "--alpha=1e-5")),
    "network": Configuration(20, ("--model=network", "--hidden=[64, 64]", "--dropout=0.1", "--max_epochs=12")),
    "CSV": Configuration(20, (*SGD, *RATE, "--target=label"), is_table=True),
    "2 processes": Configuration(20, (*SGD, *RATE, "--processes=2", "--oversubscribe")),
    "4 processes": Configuration(20, (*SGD, *RATE, "--processes=4", "--oversubscribe")),
}
LAUNCHED = ("2 processes", "4 processes")
NUM_ROWS = 2000
COLORS = np.array(["red", "green", "blue"])


def rows(num_inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal inputs, and three rings in the first two of them."""
    X = np.random.default_rng(0).normal(size=(NUM_ROWS, num_inputs)).astype(np.float32)
    return X, np.digitize(np.linalg.norm(X[:, :2], axis=1), [0.8, 1.5])


Table = list[list[str]]  # the names, then the rows


def table() -> Table:
    X, y = rows(20)
    lines = [[*(f"{x:.4f}" for x in row), label] for row, label in zip(X, COLORS[y], strict=True)]
    return [[*(f"x{i}" for i in range(20)), "label"], *lines]


def _column(change: Callable[[str], str], index: int, *, first: int = 1) -> Callable[[Table], Table]:
    return lambda t: [
        [*row[:index], change(row[index]), *row[index + 1 :]] if number >= first else row
        for number, row in enumerate(t)
    ]


def _labels(names: dict[str, str]) -> Callable[[Table], Table]:
    return _column(lambda label: names.get(label, label), 20)


CHANGES: dict[str, Callable[[Table], Table]] = {
    "a class renamed": _labels({"green": "grey"}),
    "two classes exchanged": _labels({"green": "red", "red": "green"}),
    "two classes merged": _labels({"green": "red"}),
    "the label of one row": lambda t: [*t[:-1], [*t[-1][:-1], next(c for c in COLORS if c != t[-1][-1])]],
    "a new class in one row": lambda t: [*t[:-1], [*t[-1][:-1], "white"]],
    "labels shifted by a row": lambda t: [
        t[0],
        *([*row[:-1], other[-1]] for row, other in zip(t[1:], [*t[2:], t[1]], strict=True)),
    ],
    "one number": lambda t: [*t[:-1], [f"{float(t[-1][0]) + 1e-4:.4f}", *t[-1][1:]]],
    "the unit of a column": _column(lambda x: f"{1000 * float(x):.1f}", 3),
    "the sign of a column": _column(lambda x: f"{-float(x):.4f}", 5),
    "a column rounded": _column(lambda x: f"{float(x):.1f}", 7),
    "a missing number": lambda t: [*t[:-1], ["", *t[-1][1:]]],
    "a column renamed": lambda t: [["y0", *t[0][1:]], *t[1:]],
    "two names exchanged": lambda t: [[t[0][1], t[0][0], *t[0][2:]], *t[1:]],
    "two columns exchanged": lambda t: [[row[1], row[0], *row[2:]] for row in t],
    "a column more": lambda t: [["new" if row is t[0] else "1.0", *row] for row in t],
    "a column less": lambda t: [row[1:] for row in t],
    "a row less": lambda t: t[:-1],
    "a row more": lambda t: [*t, t[-1]],
    "two rows exchanged": lambda t: [*t[:-2], t[-1], t[-2]],
    "rows in reverse order": lambda t: [t[0], *reversed(t[1:])],
}


class Training:
    """`bochner train` in a separate process, with its own temporary directory and limits."""

    def __init__(self, words: list[str], folder: Path, *, limit: tuple[str, int] | None = None) -> None:
        self.temporary = Path(tempfile.mkdtemp(prefix="tmp-", dir=folder))
        self._errors = self.temporary.with_suffix(".errors")
        self._process = PROCESSES.Process(target=_train, args=(words, str(self._errors), str(self.temporary), limit))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_for(self, ready: Callable[[], bool]) -> None:
        while self._process.is_alive() and not ready():
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill this process and its children."""
        for pid in [*children(self.pid), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def message(self) -> str:
        return self._errors.read_text() if self._errors.exists() else ""

    def remains(self) -> list[str]:
        """Files left in the temporary directory."""
        return sorted(path.name for path in self.temporary.iterdir())


def children(pid: int) -> list[int]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in file.read_text().split()] if file.exists() else []


def _train(words: list[str], errors: str, temporary: str, limit: tuple[str, int] | None) -> None:
    from bochner.cli import main

    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited by child processes
    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    if limit is not None:
        kind, size = limit
        if kind == "AS":  # in addition to the current address space of the process
            size += int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        else:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(getattr(resource, f"RLIMIT_{kind}"), (size, size))
    main(words)


class Bench:
    """Data files, models of undisturbed runs, and trials that must end with those models."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        for num_inputs in {configuration.num_inputs for configuration in CONFIGURATIONS.values()}:
            X, y = rows(num_inputs)
            np.savez(folder / f"rows{num_inputs}.npz", X=X, y=y)
        self._write_table(table())
        self._expected: dict[tuple[str, tuple[str, ...]], tuple[bytes, float]] = {}

    def _write_table(self, content: Table) -> None:
        (self.folder / "rows.csv").write_text("".join(",".join(row) + "\n" for row in content))

    def start(self, name: str, output: Path, *more: str, limit: tuple[str, int] | None = None) -> Training:
        configuration = CONFIGURATIONS[name]
        data = self.folder / ("rows.csv" if configuration.is_table else f"rows{configuration.num_inputs}.npz")
        words = ["train", str(data), *configuration.options, "--verbose=false", "--quiet", f"--output_dir={output}"]
        return Training([*words, *more], self.folder, limit=limit)

    def finish(self, name: str, output: Path, *more: str) -> None:
        training = self.start(name, output, *more)
        if training.end():
            raise RuntimeError(f"{name} {more}: the run failed: {training.message()}")

    def expected(self, name: str, *more: str) -> tuple[bytes, float]:
        """The model of an undisturbed run, and its seconds from the first file to the end under the current load."""
        if (name, more) not in self._expected:
            with self.place() as output:
                training = self.start(name, output, *more)
                training.wait_for((output / "config.json").exists)
                start = time.perf_counter()
                if training.end():
                    raise RuntimeError(f"{name}: the undisturbed run failed: {training.message()}")
                self._expected[name, more] = _model(output), time.perf_counter() - start
        return self._expected[name, more]

    @contextlib.contextmanager
    def place(self) -> Iterator[Path]:
        """A new output directory, removed afterwards with the temporary directories of its runs."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            yield Path(name) / "run"
        for path in self.folder.glob("tmp-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def interrupt(self, name: str, output: Path, rng: random.Random, number: signal.Signals) -> tuple[Training, Trial]:
        """A new or resumed run that gets a signal at a random time.

        In half of the trials at any time of a whole run, otherwise after the first file that it stores.
        """
        _, seconds = self.expected(name)
        training, after_first = self.start(name, output), rng.random() < 0.5
        delay = rng.uniform(0, seconds / 4 if after_first else seconds)
        training.wait_for((output / "config.json").exists)
        if after_first:
            training.wait_for(lambda: phase(output) != "nothing")
        time.sleep(delay)
        training.kill() if number == signal.SIGKILL else training.send(number)
        start = time.perf_counter()
        code = training.end()
        trial = {"configuration": name, "delay": delay, "seconds": time.perf_counter() - start, "code": code}
        return training, trial | {"phase": phase(output), "epochs_done": _epochs(output)}

    def killed(self, name: str, count: int, rng: random.Random) -> list[Trial]:
        """A run that is killed and resumed up to `count` times and then completes; one trial per kill."""
        trials: list[Trial] = []
        with self.place() as output:
            while len(trials) < count:
                _, trial = self.interrupt(name, output, rng, signal.SIGKILL)
                if trial["code"] != -signal.SIGKILL:  # it had ended before
                    break
                trials.append({"kind": "kill", **trial})
            self.finish(name, output)
            equal = _model(output) == self.expected(name)[0]
        return [{**trial, "equal": equal} for trial in trials]

    def terminated(self, name: str, rng: random.Random) -> list[Trial]:
        with self.place() as output:
            training, trial = self.interrupt(name, output, rng, signal.SIGTERM)
            if trial["code"] == 0 or trial["phase"] == "model":  # it had ended before
                return []
            message, remains = training.message(), training.remains()
            orderly = trial["code"] == 143 and trial["seconds"] < 10 and not remains and _is_one_line(message)
            kept = "checkpoint is kept" in message
            self.finish(name, output)
            equal = _model(output) == self.expected(name)[0]
        return [{"kind": "SIGTERM", **trial, "equal": equal, "orderly": orderly, "kept": kept, "message": message}]

    def rank_killed(self, rng: random.Random) -> list[Trial]:
        """Two processes, one of which is killed; the launcher restarts both."""
        name = "2 processes"
        expected, seconds = self.expected(name)
        with self.place() as output:
            training = self.start(name, output, "--max_restarts=1")
            training.wait_for((output / "checkpoint" / "checkpoint.json").exists)
            delay, victim = rng.uniform(0, seconds / 4), rng.randrange(2)
            time.sleep(delay)
            ranks, epochs = children(training.pid), _epochs(output)
            if len(ranks) != 2 or (output / "model.safetensors").exists():  # it has ended before
                training.end()
                return []
            os.kill(ranks[victim], signal.SIGKILL)
            equal = training.end() == 0 and _model(output) == expected
        return [{"kind": "rank kill", "delay": delay, "rank": victim, "epochs_done": epochs, "equal": equal}]

    def changed(self, change: str, rng: random.Random) -> list[Trial]:
        """A run that is killed after its first checkpoint, and resumed on a table that has changed."""
        with self.place() as output:
            training = self.start("CSV", output)
            training.wait_for((output / "checkpoint" / "checkpoint.safetensors").exists)
            training.kill()
            if training.end() == 0:
                return []
            try:
                self._write_table(CHANGES[change](table()))
                second = self.start("CSV", output)
                code, message = second.end(), second.message()
            finally:
                self._write_table(table())
            refused = code == 1 and _is_one_line(message) and not (output / "model.safetensors").exists()
            self.finish("CSV", output)
            equal = _model(output) == self.expected("CSV")[0]
        return [{"kind": "changed data", "change": change, "orderly": refused, "equal": equal, "message": message}]

    def pair(self, rng: random.Random) -> list[Trial]:
        """Two runs with different seeds in one directory: the stored model must be that of the run that reports
        success."""
        name, delay = "2 inputs", rng.choice([0.0, rng.uniform(0, 1.0)])
        expected = [self.expected(name, f"--random_state={seed}")[0] for seed in (0, 1)]
        with self.place() as output:
            first = self.start(name, output, "--random_state=0")
            time.sleep(delay)
            second = self.start(name, output, "--random_state=1")
            codes = [first.end(), second.end()]
            messages = [first.message(), second.message()]
            equal = codes.count(0) == 1 and _model(output) == expected[codes.index(0)]
            refusal = messages[1 - codes.index(0)] if codes.count(0) == 1 else ""
            orderly = _is_one_line(refusal) and str(output) in refusal
        return [{"kind": "two writers", "delay": delay, "equal": equal, "orderly": orderly, "message": refusal}]

    def limited(self, kind: str, rng: random.Random) -> list[Trial]:
        """With a limit of memory or of file sizes: success, or a one-line error; then without the limit."""
        name = rng.choice([name for name in CONFIGURATIONS if name not in LAUNCHED])
        size = int(2 ** rng.uniform(20, 28)) if kind == "AS" else int(2 ** rng.uniform(8, 18))
        with self.place() as output:
            training = self.start(name, output, limit=(kind, size))
            code, message = training.end(), training.message()
            if code == 0:
                return []
            self.finish(name, output)
            equal = _model(output) == self.expected(name)[0]
        trial = {"kind": LIMITS[kind], "configuration": name, "size": size, "equal": equal, "message": message}
        return [{**trial, "orderly": code == 1 and _is_one_line(message)}]

    def full_disk(self, place: Path, rng: random.Random) -> list[Trial]:
        """In a small file system that fills up during the run and is cleared before the command is repeated."""
        output, filler, name = place / "run", place / "filler", "2 inputs"
        expected, seconds = self.expected(name)
        training = self.start(name, output)
        training.wait_for((output / "checkpoint" / "checkpoint.safetensors").exists)
        time.sleep(rng.uniform(0, seconds / 2))
        epochs = _epochs(output)
        _fill(filler)
        code, message = training.end(), training.message()
        filler.unlink()
        if code == 0:  # it had ended before
            return []
        self.finish(name, output)
        orderly = code == 1 and "No space left on device" in message and _is_one_line(message)
        equal = _model(output) == expected
        return [{"kind": "full disk", "epochs_done": epochs, "orderly": orderly, "message": message, "equal": equal}]

    def read_only(self, place: Path) -> list[Trial]:
        """In a read-only file system."""
        training = self.start("2 inputs", place / "run")
        code, message = training.end(), training.message()
        orderly = code == 1 and "Read-only file system" in message and _is_one_line(message)
        return [{"kind": "read-only directory", "orderly": orderly, "message": message}]


LIMITS = {"AS": "memory limit", "FSIZE": "file size limit"}


def _model(output: Path) -> bytes:
    return (output / "model.safetensors").read_bytes()


def _is_one_line(message: str) -> bool:
    """Whether an error takes one line; warnings may precede it."""
    lines = [line for line in message.splitlines() if "warning" not in line.lower()]
    return len(lines) == 1 and lines[0].startswith("bochner: ")


def phase(output: Path) -> str:
    """The kind of file that a run stored last."""
    files = [path for path in (output / "checkpoint").rglob("*") if path.suffix == ".safetensors"]
    files += list((output / "checkpoint").rglob("checkpoint.json"))
    if (output / "model.safetensors").exists():
        return "model"
    if not files:
        return "nothing"
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    return str(newest.relative_to(output / "checkpoint")).split("/parts-")[0]


def _epochs(output: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in (output / "checkpoint").rglob("history.jsonl"))


def _fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def mounted(kind: str, seed: int, folder: Path) -> list[Trial]:
    """One trial in a separate process, whose `place` is a private in-memory file system of 2 MiB."""
    place = folder / "place"
    place.mkdir(exist_ok=True)
    inner = [sys.executable, "-m", "benchmarks.reliability", f"--inside={kind}", f"--folder={folder}", f"--seed={seed}"]
    command = [*NAMESPACE, "sh", "-c", MOUNT, "sh", "2m", str(place), *inner]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        print(f"{kind}: not run ({done.stderr.strip().splitlines()[-1:]})", flush=True)
        return []
    trials: list[Trial] = json.loads(done.stdout.splitlines()[-1])
    return trials


def inside(kind: str, folder: Path, seed: int) -> list[Trial]:
    """Run by `mounted`, inside the file system."""
    bench = Bench(folder)
    if kind == "full_disk":
        return bench.full_disk(folder / "place", random.Random(seed))
    subprocess.run(["mount", "-o", "remount,ro", str(folder / "place")], check=True)
    return bench.read_only(folder / "place")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in COUNTS.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=f"number of trials (default {default})")
    parser.add_argument("--configurations", nargs="+", choices=list(CONFIGURATIONS), default=list(CONFIGURATIONS))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--minutes", type=float, default=120, help="no trial starts after this many")
    parser.add_argument("--inside", choices=["full_disk", "read_only"], help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(inside(options.inside, options.folder.resolve(), options.seed)))
    else:
        options.folder = options.folder.resolve()
        run_all(Bench(options.folder), options)


COUNTS = {"kills": 200, "terms": 50, "rank_kills": 10, "changes": len(CHANGES), "pairs": 20, "memory_limits": 20}
COUNTS |= {"size_limits": 20, "full_disks": 10}


def run_all(bench: Bench, options: argparse.Namespace) -> None:
    """Run trials until there are as many of each kind as requested; each is stored as soon as it ends."""
    output, deadline = options.folder / "reliability.json", time.monotonic() + 60 * options.minutes
    trials: list[Trial] = json.loads(output.read_text())["trials"] if output.exists() else []

    def rarest(kind: str) -> str:
        """The configuration with the fewest trials of this kind."""
        counts = dict.fromkeys(options.configurations, 0)
        for trial in trials:
            if trial["kind"] == kind and trial["configuration"] in counts:
                counts[trial["configuration"]] += 1
        return min(counts, key=lambda name: counts[name])

    def next_change() -> str:
        done = [trial["change"] for trial in trials if trial["kind"] == "changed data"]
        return min(CHANGES, key=done.count)

    def rng() -> random.Random:
        return random.Random(f"{attempts} {len(trials)}")

    kinds: dict[str, tuple[int, Callable[[int], list[Trial]]]] = {
        "kill": (options.kills, lambda left: bench.killed(rarest("kill"), min(left, KILLS_PER_RUN), rng())),
        "SIGTERM": (options.terms, lambda left: bench.terminated(rarest("SIGTERM"), rng())),
        "changed data": (options.changes, lambda left: bench.changed(next_change(), rng())),
        "two writers": (options.pairs, lambda left: bench.pair(rng())),
        "memory limit": (options.memory_limits, lambda left: bench.limited("AS", rng())),
        "file size limit": (options.size_limits, lambda left: bench.limited("FSIZE", rng())),
        "rank kill": (options.rank_kills, lambda left: bench.rank_killed(rng())),
        "full disk": (options.full_disks, lambda left: mounted("full_disk", len(trials), bench.folder)),
        "read-only directory": (min(1, options.full_disks), lambda left: mounted("read_only", 0, bench.folder)),
    }
    for kind, (wanted, run) in kinds.items():
        attempts = 3 * wanted  # a run may end before its fault
        while (left := wanted - sum(trial["kind"] == kind for trial in trials)) > 0 and attempts > 0:
            if time.monotonic() > deadline:
                return
            attempts -= 1
            trials += run(left)
            write(trials, output)


def write(trials: list[Trial], output: Path) -> None:
    where = machine()
    output.write_text(json.dumps({"machine": where, "trials": trials}, indent=1) + "\n")
    if output.parent == FOLDER:
        fuzz = json.loads(FUZZ.read_text()) if FUZZ.exists() else {}
        options = {name: " ".join(configuration.options) for name, configuration in CONFIGURATIONS.items()}
        PAGE.write_text(page(trials, where, options, fuzz, PAGE.read_text() if PAGE.exists() else ""))
    print(f"{len(trials)} trials, the last: {trials[-1:]}", flush=True)


if __name__ == "__main__":
    main()
