"""Servers and Spark's workers killed while a batch's files are written; the driver lives on.

One driver for all rounds. A round waits for a plan without its manifest and kills; it counts if the
batch was still unfinished after the blow, else it is tried again. Then the dead one is started
again, and the pipeline must flush on by itself. After the last round it must be close behind the
log again, while records come as before.
"""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.pipeline_rig import Driver, Rig, rig, tell
from tests.faults.spark_workers import task_workers

from headrace.pipeline.plan import Step

pytestmark = pytest.mark.long

ROUNDS = int(os.environ.get("HEADRACE_PIPELINE_ROUNDS", "20"))
ATTEMPTS_MAX = 20

Strike = Callable[[Rig, Driver, random.Random], bool]
"""Kills something, has it started again; whether the flush felt it."""


def await_files(rig: Rig, driver: Driver) -> int:
    """The number of a batch whose files are being written."""
    return rig.await_standing(driver, lambda standing: standing.step is Step.STAGE).number


def is_unfinished(rig: Rig, number: int) -> bool:
    standing = rig.standing()
    return standing.number == number and standing.step is not Step.PLAN


def kill_broker(rig: Rig, driver: Driver, dice: random.Random) -> bool:
    del dice
    number = await_files(rig, driver)
    rig.broker.kill()
    felt = is_unfinished(rig, number)
    rig.broker.start()
    return felt


def kill_namenode(rig: Rig, driver: Driver, dice: random.Random) -> bool:
    del dice
    number = await_files(rig, driver)
    rig.dfs.namenode.kill()
    rig.dfs.namenode.start()
    # It was down from one look to the other: nothing can have been finished meanwhile.
    felt = is_unfinished(rig, number)
    rig.dfs.await_datanodes(len(rig.dfs.datanodes))
    return felt


def kill_datanode(rig: Rig, driver: Driver, dice: random.Random) -> bool:
    number = await_files(rig, driver)
    victim = dice.choice(rig.dfs.datanodes)
    victim.kill()
    felt = is_unfinished(rig, number)
    # Without it, too, the pipeline goes on.
    rig.await_batches(driver, 1)
    victim.start()
    rig.dfs.await_datanodes(len(rig.dfs.datanodes))
    return felt


def kill_worker(rig: Rig, driver: Driver, dice: random.Random) -> bool:
    failures = driver.said().count("Exception in task")
    number = await_files(rig, driver)
    workers = task_workers(driver.pid)
    if not workers:
        return False
    os.kill(dice.choice(workers), signal.SIGKILL)
    if not is_unfinished(rig, number):
        return False
    rig.await_standing(driver, lambda standing: standing.number > number)
    # An idle worker's death is felt by nobody.
    return driver.said().count("Exception in task") > failures


STRIKES: dict[str, Strike] = {
    "broker": kill_broker,
    "NameNode": kill_namenode,
    "DataNode": kill_datanode,
    "worker": kill_worker,
}


def one_round(rig: Rig, driver: Driver, strike: Strike, dice: random.Random) -> int:
    """How many kills it took until one was felt."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        felt = strike(rig, driver, dice)
        rig.await_batches(driver, 1)
        if felt:
            return attempt
    return pytest.fail(f"no kill of {ATTEMPTS_MAX} came during the flush: the round is void")


@pytest.mark.parametrize("victim", list(STRIKES))
def test_killed_during_the_flush(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], victim: str
) -> None:
    dice = random.Random(ROUNDS)
    with rig(tmp_path, datanodes=3) as made:
        driver = made.drive()
        made.await_batches(driver, 2)
        tries = [one_round(made, driver, STRIKES[victim], dice) for _ in range(ROUNDS)]
        lag = made.await_lag(driver)
        # It stops in order, and another one finds nothing amiss.
        driver.signal(signal.SIGTERM)
        driver.wait()
        verdict = made.finish()
    fired = f"{ROUNDS} rounds, {sum(tries)} kills of which {ROUNDS} during the flush, {lag}"
    tell(capsys, f"kill -9 of the {victim}", fired, verdict)
