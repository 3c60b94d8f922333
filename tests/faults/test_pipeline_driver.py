"""kill -9 of a pipeline's driver, at every step of a batch, while it completes another's, anywhere.

Half of the deaths are aimed (see `doomed_driver`), the others come at a random moment, and where
the batch stood then is read from its checkpoint. Every life has other settings than the one before:
what was planned is obeyed nevertheless. Transactions are aborted all the while.
"""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.faults.pipeline_rig import STAGES, Rig, rig, tell

POINTS = ("planned", "staged", "manifest", "renaming", "renamed", "committed")
ROUNDS = int(os.environ.get("HEADRACE_PIPELINE_ROUNDS", "24"))
"""In two parts, each of which passes every point."""
RANDOM_S = 1.5


def die_at(rig: Rig, point: str, passes: int, *more: str) -> None:
    driver = rig.drive(*more, armed=(point, passes, "KILL"))
    assert driver.wait() == -signal.SIGKILL, driver.said()[-4000:]
    assert f"struck at {point}" in driver.said()


def die_anywhere(rig: Rig, dice: random.Random, *more: str) -> str:
    """Where it was, as who comes next will find it."""
    driver = rig.drive(*more)
    rig.await_batches(driver, 1)
    time.sleep(dice.uniform(0, RANDOM_S))
    assert driver.is_alive, driver.said()[-4000:]
    driver.kill()
    return f"anywhere: {STAGES[rig.standing().step]}"


def rounds_of(rig: Rig, rounds: int, dice: random.Random) -> str:
    fired: Counter[str] = Counter()
    for number in range(rounds):
        size, codec = dice.choice((64, 100, 300)), dice.choice(("zstd", "snappy"))
        more = ["--file-size", f"{size}KiB", "--codec", codec]
        point = POINTS[number // 2 % len(POINTS)]
        if number % 2 == 0:
            die_at(rig, point, dice.choice((1, 1, 2)), *more)
        else:
            point = die_anywhere(rig, dice, *more)
        fired[point] += 1
    assert fired.total() == rounds
    return f"{rounds} rounds, killed at " + ", ".join(f"{k} {n}" for k, n in fired.items())


@pytest.mark.long
def test_a_driver_killed_between_the_renames_and_the_commit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with rig(tmp_path) as made:
        die_at(made, "renamed", 1)
        verdict = made.finish()
    tell(capsys, "kill -9 of the driver", "1 round, killed at renamed 1", verdict)


@pytest.mark.long
@pytest.mark.parametrize("part", range(2))
def test_a_driver_killed_anywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    with rig(tmp_path, seed=part) as made:
        fired = rounds_of(made, -(-ROUNDS // 2), random.Random(part))
        verdict = made.finish()
    tell(capsys, "kill -9 of the driver", fired, verdict)
