"""`python -m tests.fuzz --count 10000`: the long run, each reader in a process of its own."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.attempt import attempts
from tests.fuzz.readers import READERS

MEMORY = 8 * 2**30  # bytes of addresses: a reader that believes a hostile size runs into it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", choices=list(READERS), help="only this one, in this process")
    parser.add_argument("--output", type=Path, default=Path("out/fuzz.json"))
    asked = parser.parse_args()
    if asked.reader is not None:
        print(json.dumps(alone(asked.reader, asked.count, asked.seed)))
        return
    found = {name: apart(name, asked.count, asked.seed) for name in READERS}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps({"count": asked.count, "seed": asked.seed, "readers": found}, indent=1))
    sys.exit(any("failure" in ended for ended in found.values()))


def alone(name: str, count: int, seed: int) -> dict[str, float]:
    """How the files of one reader ended, within bounded memory."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ended = attempts(READERS[name], Path(folder), count=count, seed=seed)
    return {**ended, "seconds": round(time.perf_counter() - began, 1)}


def apart(name: str, count: int, seed: int) -> dict[str, object]:
    """The same in a process that may crash."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--reader", name]
    done = subprocess.run([*command, "--count", str(count), "--seed", str(seed)], capture_output=True, text=True)
    if done.returncode:
        print(f"{name:<16} FAILED with exit code {done.returncode}", done.stderr[-3000:], sep="\n", flush=True)
        return {"failure": done.stderr[-3000:], "returncode": done.returncode}
    ended: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:<16} {ended}", flush=True)
    return ended


if __name__ == "__main__":
    main()
