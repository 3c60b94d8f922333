"""Two drivers on one checkpoint: who came last goes on, the other stops and says so.

Each round's winner is the next round's loser. Some losers are put to sleep at a step of their batch
and wake when the winner has gone on without them; others are overtaken at full speed.
"""

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
from tests.faults.pipeline_load import PARTITIONS
from tests.faults.pipeline_rig import WAIT_S, Armed, Driver, Rig, rig, tell
from tests.interop.nodes import until

pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("HEADRACE_PIPELINE_ROUNDS", "24"))
"""In two parts, each of which passes every point."""
SLEEPS = ("planned", "staged", "manifest", "renaming", "renamed", "committed")


def has_flushed(driver: Driver) -> bool:
    """By its own word: where the batches stand does not say who did them."""
    assert driver.is_alive, driver.said()[-4000:]
    return "\nbatch " in driver.said()


def overtake(rig: Rig, loser: Driver, asleep_at: str | None, armed: Armed) -> Driver:
    """The winner of a round, which in its turn is armed for the next."""
    if asleep_at is not None:
        until(lambda: f"struck at {asleep_at}" in loser.said(), WAIT_S)
    winner = rig.drive(armed=armed)
    if asleep_at is not None:
        until(lambda: has_flushed(winner), WAIT_S)
        loser.signal(signal.SIGCONT)
    assert loser.wait() == 1, loser.said()[-4000:]
    said = loser.said()
    assert "another driver" in said, said[-4000:]
    assert f"process {winner.pid} on" in said, said[-4000:]
    until(lambda: has_flushed(winner), WAIT_S)
    return winner


def rounds_of(rig: Rig, rounds: int, dice: random.Random) -> str:
    fired: Counter[str] = Counter()
    sleeps = [SLEEPS[number // 2 % len(SLEEPS)] if number % 2 else None for number in range(rounds)]

    def armed_for(number: int) -> Armed:
        point = sleeps[number] if number < rounds else None
        if point is None:
            return None
        # Not in the first batch: it has to win before it loses.
        batches = dice.randrange(2, 4)
        return (point, batches * PARTITIONS - 1 if point == "renaming" else batches, "STOP")

    loser = rig.drive(armed=armed_for(0))
    until(lambda: has_flushed(loser), WAIT_S)
    for number in range(rounds):
        loser = overtake(rig, loser, sleeps[number], armed_for(number + 1))
        fired[sleeps[number] or "awake"] += 1
    loser.kill()
    told = ", ".join(f"{name} {count}" for name, count in fired.items())
    return f"{rounds} rounds, losers overtaken {told}"


@pytest.mark.parametrize("part", range(2))
def test_who_came_last_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], part: int
) -> None:
    with rig(tmp_path, seed=part) as made:
        fired = rounds_of(made, -(-ROUNDS // 2), random.Random(part))
        verdict = made.finish()
    tell(capsys, "two drivers", fired, verdict)
