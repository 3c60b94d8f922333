"""The process that cleans logs: jobs in at stdin, outcomes out at stdout, a JSON line each.

Owns: the choice of the engine, the bound on bytes a second, the end with its parent.
Must not know: why a log is cleaned.

Its priority is low: where a core is short, clients come first. Jobs of one life share compiled
code and nothing else.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable

from headrace.base.errors import CorruptionError, StorageError
from headrace.log.compaction.cleaning import clean
from headrace.log.compaction.engine import Engine, PythonEngine
from headrace.log.compaction.job import CleaningJob
from headrace.runtime.disk import DiskStorage

NICENESS = 10
_PR_SET_PDEATHSIG = 1
_SLEEP_S_MAX = 1.0
_BUFFER_BYTES_MIN = 1 << 20


def engine_for(job: CleaningJob) -> Engine:
    """Compiled where numba is installed. No larger than the dirty bytes can make use of."""
    dirty_bytes = sum(size for _, size in job.segments)
    buffer_bytes = min(job.buffer_bytes, max(_BUFFER_BYTES_MIN, dirty_bytes * 24))
    secret = os.urandom(16)
    try:
        from headrace.log.compaction.compiled import CompiledEngine
    except (ImportError, RuntimeError):  # not installed, or no place for what it compiles
        return PythonEngine(buffer_bytes, job.load_factor, secret)
    return CompiledEngine(buffer_bytes, job.load_factor, secret)


def paced(bytes_per_second: float) -> Callable[[int], None]:
    """Sleeps as long as the bytes so far were too many for the time so far."""
    started_s = time.monotonic()
    parent = os.getppid()
    done = 0

    def on_bytes(count: int) -> None:
        nonlocal done
        done += count
        if os.getppid() != parent:
            sys.exit(1)  # nobody waits for it, and another may be at the same files
        ahead_s = done / bytes_per_second - (time.monotonic() - started_s)
        while ahead_s > 0:
            time.sleep(min(ahead_s, _SLEEP_S_MAX))
            ahead_s = done / bytes_per_second - (time.monotonic() - started_s)

    return on_bytes


def answer(line: str) -> dict[str, object]:
    started_s = time.monotonic()
    job = CleaningJob.from_json(line)
    try:
        outcome = clean(DiskStorage(), job, engine_for(job), paced(job.io_bytes_per_second))
    except CorruptionError as error:
        return {
            "error": "corruption",
            "path": error.path,
            "position": error.position,
            "reason": error.reason,
        }
    except StorageError as error:
        return {"error": "storage", "path": error.path, "reason": str(error.cause)}
    except FileNotFoundError as error:
        return {"error": "gone", "reason": str(error)}
    fields = json.loads(outcome.to_json())
    fields["elapsed_ms"] = int((time.monotonic() - started_s) * 1000)
    return {"outcome": json.dumps(fields)}


def die_with_parent() -> None:
    """Two processes must never write the same `.cleaned` file."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


def main() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when it ends
    os.nice(NICENESS)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(line)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
