"""A topic is copied in transactions on three brokers while the ones that matter are killed.

In turn it is the broker that coordinates the transactions, the leader of a partition that is
written to, and the coordinator of the copier's group; each time in the midst of transactions.
Another broker takes over before the dead one returns. Read at read_committed, the copy holds
exactly what the input holds, in its order: nothing lost, nothing twice; and no transaction stays
open. A round in which the copier did not commit without the dead broker is void, and fails.

Kafka's Java client has to survive all of it. Librdkafka 2.16 does not always: when the coordinator
of the group dies it may wait for the handle of the dead broker for ever, in
`send_offsets_to_transaction`; a copier that says nothing for long is replaced, as a supervisor
would, and its successor ends what it left open. How often is printed with the counts.
"""

import queue
import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec
from tests.faults.replicas import WAIT_S, await_state, create_replicated, is_whole
from tests.faults.test_transactional_copier import (
    PAUSE_MS,
    PER_TRANSACTION,
    CommittedReader,
    Copier,
    python_copier,
)
from tests.interop.confluent import TIMEOUT_S, admin_of, producer_of
from tests.interop.coordinators import GROUP, TRANSACTION, coordinator_name
from tests.interop.java_tools import JavaTools, java_command
from tests.interop.nodes import until

from headrace.testing.local_cluster import LocalCluster

PARTITIONS = 3
BEFORE_KILL, WHILE_DOWN = 600, 600
"""Records that each round gives the copier to do."""
QUIET_S = 600
"""The copier ends with the test, not by itself."""
STALL_S = 20.0
"""Far more than a change of leaders takes."""
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1_000,
}
INTERNAL = ("__consumer_offsets", "__transaction_state")


class SupervisedCopier:
    """A copier that is replaced when it ended, or said nothing for `STALL_S`."""

    def __init__(self, command: list[str], *, replaces: bool) -> None:
        self._command, self._replaces = command, replaces
        self._at_work = Copier(command)
        self._heard_s = time.monotonic()
        self.replaced: Counter[str] = Counter()
        self.commits = 0

    def await_commits(self, count: int) -> None:
        wanted = self.commits + count
        self.until("a commit", lambda: self.commits >= wanted)

    def until(self, what: str, reached: Callable[[], bool]) -> None:
        self._heard_s = time.monotonic()
        deadline_s = self._heard_s + WAIT_S
        while not reached():
            assert time.monotonic() < deadline_s, f"{what} did not come; {self.replaced}"
            self._listen()

    def take_in(self) -> None:
        """What was told until now."""
        while not self._at_work.lines.empty():
            self._listen()

    def _listen(self) -> None:
        try:
            line = self._at_work.lines.get(timeout=0.05)
        except queue.Empty:
            if time.monotonic() - self._heard_s > STALL_S:
                self._replace("it stalled")
            return
        self._heard_s = time.monotonic()
        if line in ("ended", "done"):
            self._replace((self._at_work.errors().strip() or line).splitlines()[-1])
        else:
            self.commits += 1

    def _replace(self, reason: str) -> None:
        assert self._replaces, f"the copier did not survive: {reason}"
        self.replaced[reason] += 1
        self._at_work.kill()
        self._at_work = Copier(self._command)
        self._heard_s = time.monotonic()

    def kill(self) -> None:
        self._at_work.kill()


class Run:
    """One input, one output, one copier between them."""

    def __init__(self, cluster: LocalCluster, tag: str, seed: int) -> None:
        self._cluster, self._chance = cluster, random.Random(seed)
        self._servers = cluster.bootstrap_servers
        self._input, self._output = f"input-{tag}", f"output-{tag}"
        self._group, self._id = f"copiers-{tag}", f"copier-{tag}"
        for topic in (self._input, self._output):
            create_replicated(cluster, topic, PARTITIONS)
        self._producer = producer_of(self._servers, enable_idempotence=True)
        self._sent: list[list[str]] = [[] for _ in range(PARTITIONS)]
        self.killed: Counter[str] = Counter()

    @property
    def sent(self) -> list[str]:
        return [value for each in self._sent for value in each]

    def write(self, count: int) -> None:
        for number in range(count):
            partition = number % PARTITIONS
            value = f"record {partition} {len(self._sent[partition])}"
            self._producer.produce(self._input, value=value.encode(), partition=partition)
            self._sent[partition].append(value)
        assert self._producer.flush(WAIT_S) == 0

    def rounds(self, count: int, command: list[str], *, replaces: bool) -> str:
        along = CommittedReader(self._servers, self._output, PARTITIONS)
        along.start()
        words = [self._servers, self._input, self._output, self._group, self._id]
        words += [str(PER_TRANSACTION), str(PAUSE_MS), str(QUIET_S)]
        copier = SupervisedCopier([*command, *words], replaces=replaces)
        try:
            for number in range(count):
                self._round(number, copier)
            self.write(BEFORE_KILL)
            copier.until("the end", lambda: along.count >= len(self.sent))
        finally:
            copier.kill()
        return self._judge(along, copier)

    def _round(self, number: int, copier: SupervisedCopier) -> None:
        self.write(BEFORE_KILL)
        copier.await_commits(1 + self._chance.randrange(3))
        role = ("transaction coordinator", "leader", "group coordinator")[number % 3]
        victim = self._who_is(role)
        # Anywhere in a transaction or between two.
        time.sleep(self._chance.uniform(0.0, 0.1))
        self._cluster.kill(victim)
        self.killed[role] += 1
        try:
            copier.take_in()
            self.write(WHILE_DOWN)
            copier.await_commits(2)
        finally:
            self._cluster.start_node(victim)
        for topic in (self._input, self._output, *INTERNAL):
            await_state(self._cluster, topic, is_whole)

    def _who_is(self, role: str) -> str:
        if role == "transaction coordinator":
            return coordinator_name(self._cluster, self._id, TRANSACTION)
        if role == "group coordinator":
            return coordinator_name(self._cluster, self._group, GROUP)
        led = await_state(self._cluster, self._output, is_whole)
        return self._cluster.name_of(led[self._chance.randrange(PARTITIONS)].leader)

    def _judge(self, along: CommittedReader, copier: SupervisedCopier) -> str:
        late = CommittedReader(self._servers, self._output, PARTITIONS)
        late.start()
        sent = self.sent
        counts = []
        for reader in (along, late):
            read = reader.finish(len(sent))
            lost, twice = len(set(sent) - set(read)), len(read) - len(set(read))
            counts.append(f"lost {lost}, duplicated {twice}, invented {len(set(read) - set(sent))}")
            assert read == sent, counts[-1]
        self._check_nothing_is_open()
        kills = ", ".join(f"{count} of a {role}" for role, count in self.killed.items())
        return (
            f"{kills}; {len(sent)} records, {copier.commits} commits: {counts[0]}; "
            f"copiers replaced: {dict(copier.replaced) or 0}"
        )

    def _check_nothing_is_open(self) -> None:
        """Whoever takes over the id ends what the last copier left; then nothing is open."""
        taker = producer_of(self._servers, transactional_id=self._id)
        taker.init_transactions(TIMEOUT_S)
        until(lambda: self._ends(IsolationLevel.READ_COMMITTED) == self._ends(), WAIT_S)

    def _ends(self, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED) -> dict[int, int]:
        asked = {TopicPartition(self._output, p): OffsetSpec.latest() for p in range(PARTITIONS)}
        admin = admin_of(self._servers)
        told = admin.list_offsets(asked, isolation_level=isolation, request_timeout=TIMEOUT_S)
        return {where.partition: found.result(TIMEOUT_S).offset for where, found in told.items()}


def run(
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    rounds: int,
    seed: int,
    *,
    replaces: bool = False,
) -> None:
    with LocalCluster(brokers=3, settings=SETTINGS) as cluster:
        line = Run(cluster, str(seed), seed).rounds(rounds, command, replaces=replaces)
    with capsys.disabled():
        print(f"\ncopied while brokers were killed: {line}")


@pytest.mark.long
def test_librdkafka_copies_while_each_is_killed_once(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, python_copier(), rounds=3, seed=3, replaces=True)


@pytest.mark.long
def test_librdkafka_over_twenty_kills(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, python_copier(), rounds=20, seed=20, replaces=True)


@pytest.mark.long
@pytest.mark.java
def test_java_over_twenty_kills(capsys: pytest.CaptureFixture[str], java: JavaTools) -> None:
    del java  # its jars and classes are there
    run(capsys, [*java_command(), "TransactionalCopier"], rounds=20, seed=21)
