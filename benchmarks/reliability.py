"""Faults in numbers: `bochner train` killed, out of disk and without write access, and whether the model is the same.

    python -m benchmarks.reliability                 # 50 kills and the rest, ten minutes; trials that are done are kept
    python -m benchmarks.reliability --kills 3 --rank_kills 1 --full_disks 1 --folder /tmp/some

Writes reliability.json into the folder, and docs/reliability.md when that is the default one; the page also counts the
damaged files of `python -m tests.fuzz`, from out/fuzz.json. Full disks are small file systems in memory and need Linux
with user namespaces (`unshare`); without them those trials are said not to be run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch

from benchmarks.measure import machine
from benchmarks.reliability_page import Trial, page

ROOT = Path(__file__).parents[1]
FOLDER, PAGE = ROOT / "out" / "benchmarks" / "reliability", ROOT / "docs" / "reliability.md"
FUZZ = ROOT / "out" / "fuzz.json"
OPTIONS = ["--solver=sgd", "--n_components=128", "--batch_size=32", "--learning_rate=0.05", "--max_epochs=20"]
OPTIONS += ["--max_halvings=30", "--verbose=false"]
KILLS_A_RUN = 5
NAMESPACE = ["unshare", "--user", "--map-root-user", "--mount"]
MOUNT = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && exec "$@"'

PROCESSES = get_context("forkserver")  # a server that has imported everything forks the runs: no trial waits for that
PROCESSES.set_forkserver_preload(["bochner.cli"])


class Training:
    """`bochner train` in a process of its own."""

    def __init__(self, words: list[str], errors: Path) -> None:
        self._errors = errors
        self._process = PROCESSES.Process(target=_train, args=(words, str(errors)))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_for(self, ready: Callable[[], bool]) -> None:
        while self._process.is_alive() and not ready():
            time.sleep(0.01)

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode

    def said(self) -> str:
        return self._errors.read_text()


def _train(words: list[str], errors: str) -> None:
    from bochner.cli import main

    torch.set_num_threads(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    main(words)


class Bench:
    """A data file, the model of an undisturbed run of it, and trials that must end with that model."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.data = folder, folder / "rings.npz"
        X = np.random.default_rng(0).normal(size=(3000, 2)).astype(np.float32)
        np.savez(self.data, X=X, y=np.digitize(np.linalg.norm(X, axis=1), [0.8, 1.5]))
        self.whole, self.of_two = self._undisturbed("whole"), self._undisturbed("of_two", "--processes=2")
        self.seconds = self._seconds()

    def _undisturbed(self, name: str, *more: str) -> bytes:
        model = self.folder / name / "model.safetensors"
        if not model.exists():
            self.finish(model.parent, *more)
        return model.read_bytes()

    def _seconds(self) -> float:
        """From the beginning of a run's work to its end, as fast as the machine is now."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            output = Path(name) / "run"
            training = self.start(output)
            training.wait_for((output / "config.json").exists)
            start = time.perf_counter()
            training.end()
            return time.perf_counter() - start

    def start(self, output: Path, *more: str) -> Training:
        return Training(
            ["train", str(self.data), *OPTIONS, f"--output_dir={output}", *more], self.folder / "errors.txt"
        )

    def finish(self, output: Path, *more: str) -> None:
        training = self.start(output, *more)
        if training.end():
            raise RuntimeError(f"the run did not end well: {training.said()}")

    def killed(self, count: int, rng: random.Random) -> list[Trial]:
        """A run that is killed up to `count` times, each time resumed, and then ends; one trial a kill."""
        trials: list[Trial] = []
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            output = Path(name) / "run"
            while len(trials) < count:
                training, delay = self.start(output), rng.uniform(0, self.seconds / 2)
                training.wait_for((output / "config.json").exists)
                time.sleep(delay)
                training.kill()
                if training.end() != -signal.SIGKILL:  # it had ended before
                    break
                trials.append({"kind": "kill", "delay": delay, "epochs_done": _epochs(output)})
            if not (output / "model.safetensors").exists():
                self.finish(output)
            equal = (output / "model.safetensors").read_bytes() == self.whole
        return [{**trial, "equal": equal} for trial in trials]

    def rank_killed(self, rng: random.Random) -> list[Trial]:
        """Two processes, one of which is killed; the launcher starts both anew."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            output = Path(name) / "run"
            training = self.start(output, "--processes=2", "--max_restarts=1")
            training.wait_for((output / "checkpoint" / "checkpoint.json").exists)
            delay, victim = rng.uniform(0, self.seconds / 2), rng.randrange(2)
            time.sleep(delay)
            ranks = Path(f"/proc/{training.pid}/task/{training.pid}/children").read_text().split()
            epochs = _epochs(output)
            if len(ranks) != 2 or (output / "model.safetensors").exists():  # it has ended before
                training.end()
                return []
            os.kill(int(ranks[victim]), signal.SIGKILL)
            equal = training.end() == 0 and (output / "model.safetensors").read_bytes() == self.of_two
        return [{"kind": "rank kill", "delay": delay, "rank": victim, "epochs_done": epochs, "equal": equal}]

    def full_disk(self, place: Path, rng: random.Random) -> list[Trial]:
        """In a small file system that fills up on the way, and is cleared before the same command is given again."""
        output, filler = place / "run", place / "filler"
        training = self.start(output)
        training.wait_for((output / "checkpoint" / "checkpoint.safetensors").exists)
        time.sleep(rng.uniform(0, self.seconds / 2))
        epochs = _epochs(output)
        _fill(filler)
        code, said = training.end(), training.said()
        filler.unlink()
        if code == 0:  # it had ended before
            return []
        self.finish(output)
        equal = (output / "model.safetensors").read_bytes() == self.whole
        said_so = code == 1 and "No space left on device" in said and said.count("\n") == 1
        return [{"kind": "full disk", "epochs_done": epochs, "said_so": said_so, "said": said, "equal": equal}]

    def read_only(self, place: Path) -> list[Trial]:
        """Where nothing can be written at all."""
        training = self.start(place / "run")
        code, said = training.end(), training.said()
        said_so = code == 1 and "Read-only file system" in said and said.count("\n") == 1
        return [{"kind": "read-only directory", "said_so": said_so, "said": said, "equal": None}]


def _epochs(output: Path) -> int:
    file = output / "checkpoint" / "history.jsonl"
    return len(file.read_text().splitlines()) if file.exists() else 0


def _fill(path: Path) -> None:
    """Write until there is no room."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def mounted(kind: str, seed: int, bench: Path) -> list[Trial]:
    """One trial in a process of its own, whose `place` is a file system of 2 MiB in memory that only it sees."""
    place = bench / "place"
    place.mkdir(exist_ok=True)
    inside = [sys.executable, "-m", "benchmarks.reliability", f"--inside={kind}", f"--folder={bench}", f"--seed={seed}"]
    command = [*NAMESPACE, "sh", "-c", MOUNT, "sh", "2m", str(place), *inside]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if found.returncode:
        print(f"{kind}: not run ({found.stderr.strip().splitlines()[-1:]})", flush=True)
        return []
    trials: list[Trial] = json.loads(found.stdout.splitlines()[-1])
    return trials


def inside(kind: str, bench: Path, seed: int) -> list[Trial]:
    """What `mounted` runs, where the file system is."""
    known = Bench(bench)
    if kind == "full_disk":
        return known.full_disk(bench / "place", random.Random(seed))
    subprocess.run(["mount", "-o", "remount,ro", str(bench / "place")], check=True)
    return known.read_only(bench / "place")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rank_kills", type=int, default=10)
    parser.add_argument("--full_disks", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--minutes", type=float, default=60, help="no trial is begun after so many")
    parser.add_argument("--inside", choices=["full_disk", "read_only"], help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(inside(options.inside, options.folder, options.seed)))
    else:
        run_all(Bench(options.folder), options)


def run_all(bench: Bench, options: argparse.Namespace) -> None:
    """Trials until there are as many of each kind as asked for, each kept as soon as its run has ended."""
    output, deadline = options.folder / "reliability.json", time.monotonic() + 60 * options.minutes
    kept: list[Trial] = json.loads(output.read_text())["trials"] if output.exists() else []
    kinds: dict[str, tuple[int, Callable[[int], list[Trial]]]] = {
        "kill": (options.kills, lambda left: bench.killed(min(left, KILLS_A_RUN), random.Random(len(kept)))),
        "rank kill": (options.rank_kills, lambda left: bench.rank_killed(random.Random(len(kept)))),
        "full disk": (options.full_disks, lambda left: mounted("full_disk", len(kept), bench.folder)),
        "read-only directory": (1, lambda left: mounted("read_only", 0, bench.folder)),
    }
    for kind, (wanted, run) in kinds.items():
        tries = 2 * wanted  # a run may end before its fault
        while (left := wanted - sum(trial["kind"] == kind for trial in kept)) > 0 and tries > 0:
            if time.monotonic() > deadline:
                return
            tries -= 1
            kept += run(left)
            write(kept, output)


def write(trials: list[Trial], output: Path) -> None:
    where = machine()
    output.write_text(json.dumps({"machine": where, "trials": trials}, indent=1) + "\n")
    if output.parent == FOLDER:
        fuzz = json.loads(FUZZ.read_text()) if FUZZ.exists() else {}
        PAGE.write_text(page(trials, where, "\n    ".join(OPTIONS), fuzz))
    print(f"{len(trials)} trials, the last: {trials[-1:]}", flush=True)


if __name__ == "__main__":
    main()
