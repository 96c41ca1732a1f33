"""`bochner train` in several processes: one command, the same model as with one process, and a model card."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np
import psutil
import pytest
import torch
import torch.distributed.run

import bochner
from bochner.cli.errors import TERMINATED, TerminatedError, one_line_errors
from bochner.cli.launch import LaunchOptions, _run_here, launch
from tests.cli.files import rings, rings_csv, run

Capture = pytest.CaptureFixture[str]
OPTIONS = [
    "--preset=none",
    "--solver=sgd",
    "--n_components=32",
    "--batch_size=100",
    "--max_epochs=2",
    "--learning_rate=0.5",
]


@contextmanager
def listening_addresses() -> Iterator[set[str]]:
    """The addresses at which processes started within the block listen."""
    addresses: set[str] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):  # sockets listen as long as their process lives
            for process in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    listening = (c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN)
                    addresses.update(connection.laddr.ip for connection in listening)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield addresses
    finally:
        done.set()
        thread.join()


def test_two_processes_make_the_model_of_one(tmp_path: Path, capsys: Capture) -> None:
    X, y = rings(500)
    np.savez(tmp_path / "rings.npz", X=X, y=y)
    words = ["train", tmp_path / "rings.npz", *OPTIONS, "--precision=float64"]
    assert run(capsys, *words, f"--output_dir={tmp_path / 'one'}").code == 0
    launch = ["--processes=2", "--feature_parallel=2", "--oversubscribe", f"--output_dir={tmp_path / 'two'}"]
    with listening_addresses() as addresses:
        assert run(capsys, *words, *launch).code == 0
    assert addresses == {"127.0.0.1"}  # messages are not authenticated: none may come from other machines
    one, two = (bochner.load(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    torch.testing.assert_close(two.model_.head.weights, one.model_.head.weights, rtol=0, atol=1e-10)
    assert (tmp_path / "one" / "config.json").read_bytes() == (tmp_path / "two" / "config.json").read_bytes()
    assert not (tmp_path / "two" / "checkpoint").exists()


def test_a_model_has_a_card(tmp_path: Path, capsys: Capture) -> None:
    data, directory = rings_csv(tmp_path / "rings.csv", 100), tmp_path / "m"
    assert run(capsys, "train", data, "--target=ring", f"--output_dir={directory}", "--random_state=3").code == 0
    card = json.loads((directory / "model_card.json").read_text())
    assert card["data"]["sha256"] == {str(data): hashlib.sha256(data.read_bytes()).hexdigest()}
    assert (card["seed"], card["data"]["training_rows"], card["data"]["validation_rows"]) == (3, 90, 10)
    assert card["versions"]["torch"] == torch.__version__
    scores = json.loads((directory / "validation_scores.json").read_text())
    assert card["validation_scores"].items() <= scores.items()
    page = (directory / "model_card.md").read_text()
    for text in ("# KernelClassifier", "seed 3", card["data"]["sha256"][str(data)], f"| torch | {torch.__version__} |"):
        assert text in page
    run(capsys, "train", data, "--target=ring", f"--output_dir={directory}", "--random_state=3", "--overwrite")
    assert json.loads((directory / "model_card.json").read_text()) == card


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus=2", "--processes=2"], "processes must not be given with gpus=2"),
        (["--processes=0"], "processes must be an integer"),
        (["--processes=1", "--nodes=2"], "rendezvous is required for nodes=2"),
        (["--processes=1", "--nodes=2", "--rendezvous=localhost:29400"], "run_id is required for nodes=2"),
        (["--processes=99999"], "--oversubscribe"),
        (["--processes=1", "--solver=ridge"], "'ridge' runs in one process"),
        (["--feature_parallel=2"], "feature_parallel=2 needs several processes"),
    ],
)
def test_what_cannot_be_started(words: list[str], message: str, tmp_path: Path, capsys: Capture) -> None:
    data = rings_csv(tmp_path / "rings.csv", 60)
    code, _, err = run(capsys, "train", data, "--target=ring", f"--output_dir={tmp_path / 'm'}", *words)
    assert code == 1
    assert message in err
    assert not (tmp_path / "m").exists()


def test_more_gpus_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    assert LaunchOptions(gpus=4).processes_per_node() == 4
    with pytest.raises(ValueError, match=r"gpus.*4.*got 8"):
        LaunchOptions(gpus=8).processes_per_node()


def test_several_machines_are_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    arguments: list[str] = []
    monkeypatch.setattr(torch.distributed.run, "main", arguments.extend)
    options = LaunchOptions(processes=1, nodes=2, rendezvous="localhost:29400", run_id="9d1f")
    launch("train", {}, options)
    assert {"--nnodes=2", "--rdzv-id=9d1f"} <= set(arguments)
    assert "without authentication" in caplog.text


def test_a_failed_process_ends_the_others_and_is_restarted(tmp_path: Path) -> None:
    """The second process fails twice while the first one waits."""
    starts = tmp_path / "starts"
    script = tmp_path / "rank.py"
    script.write_text(
        "import os, sys, time\n"
        f"with open({str(starts)!r}, 'a') as file: file.write(os.environ['RANK'])\n"
        "time.sleep(60 if os.environ['RANK'] == '0' else 0)\n"
        "sys.exit(7)\n"
    )
    with patch.dict(os.environ, {"PYTHONPATH": str(tmp_path)}):
        assert _run_here(["rank"], 2, tmp_path / "store", max_restarts=1) == 7
    assert sorted(starts.read_text()).count("1") == 2


def test_a_killed_process_is_named(tmp_path: Path, capsys: Capture) -> None:
    """It cannot report anything itself, for example where the system has ended it for lack of memory."""
    (tmp_path / "rank.py").write_text(
        "import os, signal, time\nif os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(60)\n"
    )
    with (
        patch.dict(os.environ, {"PYTHONPATH": str(tmp_path)}),
        pytest.raises(SystemExit, match="1"),
        one_line_errors(),
    ):
        _run_here(["rank"], 2, tmp_path / "store", max_restarts=0)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("bochner: error: process 1 of 0 to 1 was ended by SIGKILL")
    assert "the same command" in line


@pytest.mark.parametrize("waits", [0, 1])
def test_one_process_that_does_not_end_is_killed(waits: int, tmp_path: Path, capsys: Capture) -> None:
    """The signal is reported by the first process, or by this one if that was killed."""
    (tmp_path / "rank.py").write_text(
        "import os, signal, sys, time\n"
        f"waits = os.environ['RANK'] == '{waits}'\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN if waits else lambda *_: sys.exit(143))\n"
        f"open(r'{tmp_path}/' + os.environ['RANK'], 'w').close()\n"
        f"while not os.path.exists(r'{tmp_path}/{waits}'): time.sleep(0.01)\n"
        "if not waits: os.kill(os.getppid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
        f"open(r'{tmp_path}/late', 'w').close()\n"
    )
    with (
        patch.dict(os.environ, {"PYTHONPATH": str(tmp_path)}),
        patch("bochner.cli.launch.LAST_SECONDS", 0.1),
        patch("bochner.cli.launch.STOP_SECONDS", 1000),
        pytest.raises(SystemExit, match="143"),
        one_line_errors(),
    ):
        raise SystemExit(_run_here(["rank"], 2, tmp_path / "store", max_restarts=0))
    assert not (tmp_path / "late").exists()
    assert capsys.readouterr().err == ("bochner: terminated.\n" if waits == 0 else "")


@pytest.mark.parametrize(("rank", "message"), [("0", "bochner: terminated.\n"), ("1", "")])
def test_a_signal_is_reported_by_the_first_process(rank: str, message: str, capsys: Capture) -> None:
    with patch.dict(os.environ, {"RANK": rank}), pytest.raises(SystemExit, match=f"{TERMINATED}"), one_line_errors():
        raise TerminatedError
    assert capsys.readouterr().err == message


def test_a_process_of_several_exits_with_its_code_after_other_exit_handlers(tmp_path: Path) -> None:
    (tmp_path / "jsonargparse.py").write_text(  # the first thing that bochner.cli imports
        "import atexit\natexit.register(print, 'handled', end='')\nraise SystemExit(7)\n"
    )
    environment = {**os.environ, "TORCHELASTIC_RUN_ID": "1"}
    source = str(Path(bochner.__file__).parents[1])
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), source])
    done = subprocess.run([sys.executable, "-m", "bochner"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, "handled", "")
