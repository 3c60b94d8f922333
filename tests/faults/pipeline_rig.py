"""What every test of a pipeline under fire needs: servers, a load, readers, drivers, a verdict.

Owns: the processes of drivers and the bounded waits for where a batch stands. Must not know: which
fault a test is about.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.pipeline_load import PARTITIONS, TransactionLoad
from tests.faults.pipeline_reader import COUNTS, Listings, Verdict, read_truth
from tests.interop.confluent import create_topic

from headrace.base.errors import HeadraceError
from headrace.pipeline import inspection
from headrace.pipeline.batches import Batches, Standing
from headrace.pipeline.plan import Step
from headrace.pipeline.settings import Settings
from headrace.pipeline.target_files import FilesError, HdfsFiles
from headrace.testing.cluster import LocalBroker
from headrace.testing.filesystem import LocalFileSystem

WAIT_S = 300.0
"""Spark alone takes a minute to start on a busy machine."""
LAG_RECORDS = 1_000
LAG_WITHIN_S = 60.0
"""P9: below so many records within so long, once everything is up again."""
TOPIC = "orders"
STAGES = {Step.PLAN: "between batches", Step.STAGE: "files", Step.PUBLISH: "renames"}
"""What was under way, by the next step of who comes after."""


Armed = tuple[str, int, str] | None
"""Point, the how manieth pass of it, and signal; None leaves a driver alone."""


class Driver:
    """`headrace pipeline run`, as a process of its own; `armed` has it struck by itself."""

    def __init__(self, words: list[str], log: Path, armed: Armed) -> None:
        self._log = log
        head = ["-m", "headrace"]
        if armed is not None:
            script = Path(__file__).with_name("doomed_driver.py")
            head = [str(script), armed[0], str(armed[1]), armed[2]]
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-P", *head, "pipeline", "run", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def said(self) -> str:
        return self._log.read_text(errors="replace")

    def wait(self) -> int:
        """For its end, with an exit code."""
        try:
            return self._process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver does not end: {self.said()[-4000:]}") from None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Rig:
    """One topic under load, one target folder that is listed all the time."""

    def __init__(self, broker: LocalBroker, dfs: LocalFileSystem, room: Path, seed: int) -> None:
        self.broker, self.dfs = broker, dfs
        self._room = room
        self._drivers: list[Driver] = []
        servers = broker.bootstrap_servers
        self.settings = Settings(servers, f"{dfs.url}/lake", topics=(TOPIC,))
        self._words = ["-b", servers, "-t", TOPIC, "--target", self.settings.target]
        create_topic(servers, TOPIC, PARTITIONS)
        self.load = TransactionLoad(servers, TOPIC, seed)
        self._listings = Listings(
            servers, self.settings.group, TOPIC, PARTITIONS, self.settings.target
        )
        self.load.start()
        self._listings.start()

    def drive(self, *more: str, armed: Armed = None) -> Driver:
        """A driver whose batches follow each other closely, unless told otherwise."""
        log = self._room / f"driver-{len(self._drivers)}.log"
        words = [*self._words, "--trigger", "100ms", "--metrics-port", "-1", *more]
        driver = Driver(words, log, armed)
        self._drivers.append(driver)
        return driver

    def standing(self) -> Standing:
        """By a client that no fault has touched."""
        deadline_s = time.monotonic() + WAIT_S
        while True:
            try:
                return Batches(HdfsFiles(self.dfs.url), self.settings.rooms, "rig").standing()
            except FilesError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.05)

    def await_standing(self, driver: Driver, wanted: Callable[[Standing], bool]) -> Standing:
        watched = Batches(HdfsFiles(self.dfs.url), self.settings.rooms, "rig")
        deadline_s = time.monotonic() + WAIT_S
        while True:
            with contextlib.suppress(FilesError):
                standing = watched.standing()
                if wanted(standing):
                    return standing
            assert driver.is_alive, f"the driver ended by itself: {driver.said()[-4000:]}"
            assert time.monotonic() < deadline_s, f"not reached: {driver.said()[-4000:]}"
            time.sleep(0.01)

    def await_batches(self, driver: Driver, count: int) -> Standing:
        """So many more are committed."""
        goal = self.standing().number + count
        return self.await_standing(driver, lambda standing: standing.number >= goal)

    def await_lag(self, driver: Driver) -> str:
        """Under load and after the last fault: soon the pipeline is close behind the log again."""
        began_s = time.monotonic()
        while True:
            with contextlib.suppress(HeadraceError):
                lag = inspection.status(self.settings).lag_records
                took_s = time.monotonic() - began_s
                if lag < LAG_RECORDS:
                    return f"lag {lag} records {took_s:.1f} s after the last fault"
            assert driver.is_alive, f"the driver ended by itself: {driver.said()[-4000:]}"
            assert time.monotonic() - began_s < LAG_WITHIN_S, f"it lags: {driver.said()[-4000:]}"
            time.sleep(0.1)

    def finish(self) -> Verdict:
        """The load ends, a last driver flushes the rest, strangers count, `verify` agrees."""
        self.load.end()
        last = self.drive("--available-now")
        assert last.wait() == 0, last.said()[-4000:]
        self._listings.end()
        truth = read_truth(self.settings.bootstrap_servers, TOPIC, PARTITIONS)
        verdict = self._listings.judge(truth)
        assert verdict.records, "nothing was put to the test"
        assert self.load.aborted, "no transaction was aborted"
        assert not any(verdict.counts[name] for name in COUNTS), (verdict.line, verdict.examples)
        self._verify()
        return verdict

    def close(self) -> None:
        """No driver outlives the test."""
        for driver in self._drivers:
            if driver.is_alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(driver.pid, signal.SIGCONT)
                driver.kill()

    def _verify(self) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "headrace", "pipeline", "verify", *self._words],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def rig(room: Path, *, datanodes: int = 1, seed: int = 1) -> Iterator[Rig]:
    settings = {"dfs.replication": min(2, datanodes)}
    with (
        LocalBroker(settings={"offsets.topic.num.partitions": 1}) as broker,
        LocalFileSystem(datanodes=datanodes, settings=settings) as dfs,
    ):
        made = Rig(broker, dfs, room, seed)
        try:
            yield made
        finally:
            made.close()


def tell(capsys: pytest.CaptureFixture[str], what: str, fired: str, verdict: Verdict) -> None:
    with capsys.disabled():
        print(f"\n{what}: {fired}; {verdict.line}")
