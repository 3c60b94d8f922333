"""A driver that is struck at a named point of its publication: `python doomed_driver.py POINT N
SIGNAL pipeline run …` runs `headrace pipeline run …` and sends itself SIGNAL (KILL or STOP) when it
passes POINT for the N-th time. A stranger's kill would hit a window of milliseconds only by luck.

Owns: where the points are. Must not know: the test. Only the driver's own process is struck;
Spark's JVM and the tasks live on for as long as they do after a real death.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


def strike_after(owner: type, name: str, strike: Callable[[], None]) -> None:
    original = getattr(owner, name)

    def wrapped(*given: Any, **named: Any) -> Any:
        answer = original(*given, **named)
        strike()
        return answer

    setattr(owner, name, wrapped)


def strike_amid_renames(strike: Callable[[], None]) -> None:
    """As on a file system that renames one by one: some files are in place, others are not."""
    from headrace.pipeline.publication import Publication
    from headrace.pipeline.target_files import HdfsFiles

    rename_set = HdfsFiles.rename_set

    def refuse(files: HdfsFiles, renames: Any, deletes: Any = ()) -> bool:
        return False if not deletes else rename_set(files, renames, deletes)

    HdfsFiles.rename_set = refuse  # type: ignore[method-assign]
    strike_after(Publication, "_rename", strike)


def arm(point: str, strike: Callable[[], None]) -> None:
    from headrace.pipeline.batches import Batches
    from headrace.pipeline.job import Pipeline
    from headrace.pipeline.publication import Publication

    places: dict[str, tuple[type, str]] = {
        "planned": (Batches, "write_plan"),
        "staged": (Pipeline, "_stage"),
        "manifest": (Batches, "write_manifest"),
        "renamed": (Publication, "publish"),
        "committed": (Batches, "write_commit"),
    }
    if point == "renaming":
        strike_amid_renames(strike)
    else:
        strike_after(*places[point], strike)


def main() -> None:
    point, passes, how, *words = sys.argv[1:]
    left = int(passes)

    def strike() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.write(2, f"struck at {point}\n".encode())
            os.kill(os.getpid(), SIGNALS[how])

    arm(point, strike)
    sys.argv = ["headrace", *words]
    from headrace.cli.main import main as headrace

    headrace()


if __name__ == "__main__":
    main()
