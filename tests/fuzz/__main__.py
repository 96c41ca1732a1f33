"""`python -m tests.fuzz --count 10000`: the long run, each reader in a separate process."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.fuzz.attempt import attempts
from tests.fuzz.readers import READERS

MEMORY = 8 * 2**30  # bytes of address space, the limit for a reader that trusts a hostile size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files for each reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--readers", nargs="+", choices=list(READERS), default=list(READERS), help="only these")
    parser.add_argument("--output", type=Path, default=Path("out/fuzz.json"), help="results of other readers are kept")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        print(json.dumps(alone(asked.readers[0], asked.count, asked.seed)))
        return
    found = {name: apart(name, asked.count, asked.seed, asked.output) for name in asked.readers}
    sys.exit(any("failure" in ended for ended in found.values()))


def alone(name: str, count: int, seed: int) -> dict[str, float]:
    """The outcomes of the files of one reader, within bounded memory."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        ended = attempts(READERS[name], Path(folder), count=count, seed=seed)
    return {**ended, "seconds": round(time.perf_counter() - began, 1)}


def apart(name: str, count: int, seed: int, output: Path) -> dict[str, Any]:
    """The same in a separate process, which may crash; the result is stored."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz", "--inside", "--readers", name]
    done = subprocess.run([*command, "--count", str(count), "--seed", str(seed)], capture_output=True, text=True)
    ended: dict[str, Any] = {"count": count, "seed": seed, "returncode": done.returncode}
    ended |= {"failure": done.stderr[-3000:]} if done.returncode else json.loads(done.stdout.splitlines()[-1])
    print(f"{name:<24} {ended}", flush=True)
    kept = json.loads(output.read_text()) if output.exists() else {}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({**kept, name: ended}, indent=1) + "\n")
    return ended


if __name__ == "__main__":
    main()
