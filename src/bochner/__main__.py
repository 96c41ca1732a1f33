"""`python -m bochner`, which also starts each of several processes."""

import atexit
import os
import sys

exit_code = 1  # of an error with a traceback


def run() -> None:
    global exit_code
    if "TORCHELASTIC_RUN_ID" in os.environ:  # one of several processes
        atexit.register(exit_at_once)  # before the imports: the first handler is the last to be called
    try:
        from bochner.cli import main

        main()
        exit_code = 0
    except SystemExit as end:
        exit_code = end.code if isinstance(end.code, int) else int(end.code is not None)
        raise


def exit_at_once() -> None:
    """Without the destructors of gloo, which may wait for processes that have ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    run()
