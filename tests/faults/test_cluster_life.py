"""A cluster's life under load: three brokers become five, everything is moved, two leave for good.

An idempotent librdkafka producer writes with acks=all all the time and a consumer reads along.
Three controllers decide. Once with our own commands, once with Kafka's tools; with those the first
move is cancelled midway, after the active controller was killed. Nothing acknowledged is lost,
nothing is there twice, nothing changed its order; at the end the files of all replicas are the
same, and no two replicas of a partition share a rack, as at every step before.
"""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.brokers import CONTROLLERS, Brokers
from tests.faults.load import ProduceLoad, TailReader, Watcher, await_acknowledged, record_poll
from tests.faults.readers import end_offsets
from tests.faults.test_replication import IMPATIENCE, PAUSE_S, tell, verdict
from tests.interop.confluent import TIMEOUT_S, admin_of, producer_of, read_all
from tests.interop.java_tools import JavaTools
from tests.interop.nodes import until

from headrace.testing.history import History

pytestmark = pytest.mark.long

TOPIC, PARTITIONS, REPLICAS = "life", 6, 3
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}
FIRST, LATER, LEAVING = (1, 2, 3), (4, 5), (1, 2)
ACKNOWLEDGED = 500
BULK, BULK_BYTES = "bulk", 12_000_000
BULK_AT, BULK_WANTED = [[1, 2, 3], [2, 3, 1]], [[4, 5, 3], [5, 3, 4]]
"""What takes its time to move at `SLOW`; one answer, a megabyte, may go over a rate."""
SLOW, QUICK = 200_000, 20_000_000
"""Bytes in a second, of throttles."""
COMMAND_TIMEOUT_S = 600
WAIT_S = 180.0


class Life:
    """The load, and what must hold whenever it is looked at."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.history = History()
        self.admin: AdminClient = admin_of(brokers.servers)
        create(self.admin, TOPIC, PARTITIONS)
        servers = brokers.servers
        self.load = ProduceLoad(
            servers,
            TOPIC,
            PARTITIONS,
            self.history,
            idempotent=True,
            pause_s=PAUSE_S,
            settings=IMPATIENCE,
        )
        self.tail = TailReader(servers, TOPIC, PARTITIONS, self.history, notes_ends=False)
        self.watcher = Watcher(servers, TOPIC, PARTITIONS, self.history)
        self.tail.start()
        self.load.start()
        self.watcher.commit()
        self.load.gaps.begin()
        self.steps = 0

    def step(self) -> None:
        """The load goes on, everything is in sync, racks are apart."""
        self.steps += 1
        self.watcher.commit()
        await_acknowledged(self.history, ACKNOWLEDGED)
        self.brokers.await_whole(TOPIC, REPLICAS)
        for replicas in self.replicas().values():
            racks = {RACKS[each] for each in replicas}
            assert len(racks) == REPLICAS, f"{replicas} share a rack"
        self.watcher.look()

    def replicas(self, topic: str = TOPIC) -> dict[int, list[int]]:
        told = self.admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
        return {index: list(each.replicas) for index, each in told.items()}

    def leaders(self) -> list[int]:
        told = self.admin.list_topics(TOPIC, timeout=TIMEOUT_S).topics[TOPIC].partitions
        return sorted(each.leader for each in told.values())

    def end(self) -> str:
        gap_s = self.load.gaps.longest_s()
        self.load.stop()
        for message in read_all(self.brokers.servers, TOPIC, PARTITIONS):
            record_poll(self.history, "librdkafka", message)
        self.tail.drain(end_offsets(self.history))
        self.watcher.close()
        assert self.tail.errors == []
        self.brokers.await_whole(TOPIC, REPLICAS)
        for partition, replicas in self.replicas().items():
            held = [self.brokers.held(each, TOPIC, partition) for each in replicas]
            assert held[0]
            assert all(each == held[0] for each in held), f"{TOPIC}-{partition} differs"
        return verdict(self.history, self.steps, [gap_s])


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    new = NewTopic(topic, num_partitions=partitions, replication_factor=REPLICAS)
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def fill(life: Life) -> None:
    """Another topic, with more in it than moves in a moment."""
    new = NewTopic(BULK, len(BULK_AT), replica_assignment=BULK_AT)
    life.admin.create_topics([new])[BULK].result(TIMEOUT_S)
    producer = producer_of(life.brokers.servers, acks="all", linger_ms=20)
    value = b"x" * 10_000
    for number in range(len(BULK_AT) * BULK_BYTES // len(value)):
        producer.produce(BULK, value, partition=number % len(BULK_AT))
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    life.brokers.await_whole(BULK, REPLICAS)


def lived(folder: Path, grow: Callable[[Life], None], shrink: Callable[[Life, int], None]) -> str:
    with Brokers(folder, RACKS) as brokers:
        brokers.start(*FIRST)
        life = Life(brokers)
        life.step()
        brokers.start(*LATER)
        life.step()
        grow(life)
        life.step()
        spread = [each for replicas in life.replicas().values() for each in replicas]
        assert set(spread) == set(RACKS)
        # Which of them does, a plan of Kafka's own tool leaves to chance.
        assert set(life.leaders()) & set(LATER)
        for broker_id in LEAVING:
            shrink(life, broker_id)
            life.step()
            assert broker_id not in brokers.running
        left = set(RACKS) - set(LEAVING)
        assert all(set(replicas) == left for replicas in life.replicas().values())
        assert set(life.admin.list_topics(timeout=TIMEOUT_S).brokers) == left
        create(life.admin, "late", 3)
        assert all(set(replicas) == left for replicas in life.replicas("late").values())
        return life.end()


# -- with our own commands -----------------------------------------------------------------


def headrace(brokers: Brokers, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "headrace", *words, "--json", "-b", brokers.servers],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_life_with_our_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def grow(life: Life) -> None:
        planned = headrace(life.brokers, "cluster", "rebalance", "--plan")
        assert planned["moves"]
        done = headrace(life.brokers, "cluster", "rebalance", "--apply", "--throttle", "20")
        assert done["moved"] > 0
        replicas = [each["replicas"] for each in described(life)]
        assert min(replicas) > 0
        headrace(life.brokers, "cluster", "elect-leaders")
        leaders = [each["leaders"] for each in described(life)]
        assert max(leaders) - min(leaders) <= 2, leaders

    def shrink(life: Life, broker_id: int) -> None:
        words = ("cluster", "decommission", str(broker_id), "--apply")
        done = headrace(life.brokers, *words)
        assert (done["empty"], done["registered"]) == (True, True)
        assert done["moved"] > 0
        assert all(broker_id not in each for each in life.replicas().values())
        life.brokers.stop(broker_id)
        until(lambda: state_of(life, broker_id) == "down", WAIT_S)
        assert headrace(life.brokers, *words)["registered"] is False
        assert broker_id not in {each["id"] for each in described(life)}

    tell(capsys, "3 → 5 → 3 brokers", lived(tmp_path, grow, shrink))


def described(life: Life) -> list[dict[str, Any]]:
    brokers: list[dict[str, Any]] = headrace(life.brokers, "cluster", "describe")["brokers"]
    return brokers


def state_of(life: Life, broker_id: int) -> str:
    return next(str(each["state"]) for each in described(life) if each["id"] == broker_id)


# -- with Kafka's tools --------------------------------------------------------------------


class Tools:
    def __init__(self, java: JavaTools, brokers: Brokers, folder: Path) -> None:
        self._java, self._brokers = java, brokers
        self._topics, self._wishes = folder / "topics.json", folder / "wishes.json"

    def __call__(self, tool: str, *words: str) -> str:
        servers = ",".join(self._brokers.addresses[each] for each in self._brokers.running)
        where = ("--bootstrap-server", servers)
        # kafka-cluster has its options behind the subcommand, kafka-metadata-quorum before it.
        line = (*words, *where) if tool == "kafka-cluster" else (*where, *words)
        return self._java.run(tool, *line).check().stdout

    @property
    def _file(self) -> tuple[str, ...]:
        return ("--reassignment-json-file", str(self._wishes))

    def _plan(self, brokers: list[int]) -> None:
        """What the tool itself proposes for these brokers, in a file."""
        topics = self("kafka-topics", "--list").split()
        named = {"version": 1, "topics": [{"topic": each} for each in topics]}
        self._topics.write_text(json.dumps(named))
        told = self(
            *("kafka-reassign-partitions", "--generate"),
            *("--topics-to-move-json-file", str(self._topics)),
            *("--broker-list", ",".join(map(str, brokers))),
        )
        proposed = told.partition("Proposed partition reassignment configuration")[2].strip()
        self._wishes.write_text(proposed)

    def move_to(self, brokers: list[int]) -> None:
        """Throttled, until it is verified."""
        self._plan(brokers)
        file = self._file
        self("kafka-reassign-partitions", *file, "--execute", "--throttle", str(QUICK))

        def is_complete() -> bool:
            told = self("kafka-reassign-partitions", *file, "--verify")
            return "still in progress" not in told and "Clearing" in told

        until(is_complete, WAIT_S)
        assert "No partition reassignments found" in self("kafka-reassign-partitions", "--list")
        # A reassignment leaves leadership where it is; preferred leaders are elected by hand.
        self(
            *("kafka-leader-election", "--election-type", "preferred"),
            "--all-topic-partitions",
        )

    def move_and_cancel(self, life: Life) -> None:
        """Too slow to end, so that it is under way when it is cancelled."""
        partitions = [
            {"topic": BULK, "partition": index, "replicas": replicas}
            for index, replicas in enumerate(BULK_WANTED)
        ]
        self._wishes.write_text(json.dumps({"version": 1, "partitions": partitions}))
        file = self._file
        told = self("kafka-reassign-partitions", *file, "--execute", "--throttle", str(SLOW))
        assert "The inter-broker throttle limit was set" in told
        assert f"{BULK}-0: replicas: " in self("kafka-reassign-partitions", "--list")
        assert "throttled.replicas" in self.configs("topics", BULK)
        rates = [f"{side}.replication.throttled.rate={SLOW}" for side in ("leader", "follower")]
        assert all(rate in self.configs("brokers", "4") for rate in rates)
        leader, epoch = self.active_controller()
        life.brokers.kill_controller(leader)
        until(lambda: self.active_controller()[1] > epoch, WAIT_S)
        verify = ("--verify", "--preserve-throttles")
        assert "still in progress" in self("kafka-reassign-partitions", *file, *verify)
        told = self("kafka-reassign-partitions", *file, "--cancel")
        assert f"{BULK}-0" in told.partition("Successfully cancelled")[2], told
        assert "No partition reassignments found" in self("kafka-reassign-partitions", "--list")
        assert "throttled" not in self.configs("topics", BULK)
        assert all("throttled" not in self.configs("brokers", str(each)) for each in RACKS)
        # In another order, as in Kafka: those that were kept stand first.
        assert all(set(each) == set(FIRST) for each in life.replicas(BULK).values())
        life.brokers.await_whole(BULK, REPLICAS)

    def configs(self, kind: str, name: str) -> str:
        return self(
            *("kafka-configs", "--describe", "--entity-type", kind, "--entity-name", name),
        )

    def active_controller(self) -> tuple[int, int]:
        """Its id and its epoch."""
        told = self("kafka-metadata-quorum", "describe", "--status")
        found = re.search(r"LeaderId:\s+(\d+)\s+LeaderEpoch:\s+(\d+)", told)
        return (int(found[1]), int(found[2])) if found else (-1, -1)


@pytest.mark.java
def test_a_life_with_kafkas_tools(
    tmp_path: Path, java: JavaTools, capsys: pytest.CaptureFixture[str]
) -> None:
    def grow(life: Life) -> None:
        tools = Tools(java, life.brokers, tmp_path)
        fill(life)
        tools.move_and_cancel(life)
        life.step()
        tools.move_to(sorted(RACKS))
        shown = tools("kafka-topics", "--describe", "--topic", TOPIC)
        assert f"PartitionCount: {PARTITIONS}" in shown
        assert tools("kafka-topics", "--describe", "--under-replicated-partitions").strip() == ""
        sizes = tools("kafka-log-dirs", "--describe", "--topic-list", TOPIC)
        found = json.loads(sizes[sizes.index("{") :])
        assert {each["broker"] for each in found["brokers"]} == set(RACKS)
        assert all(directory["partitions"] for b in found["brokers"] for directory in b["logDirs"])
        assert tools.active_controller()[0] in CONTROLLERS
        quorum = tools("kafka-metadata-quorum", "describe", "--replication")
        assert quorum.count("Observer") == len(RACKS)
        assert quorum.count("Follower") == len(CONTROLLERS) - 1

    def shrink(life: Life, broker_id: int) -> None:
        tools = Tools(java, life.brokers, tmp_path)
        entity = ("--entity-type", "brokers", "--entity-name", str(broker_id))
        tools("kafka-configs", *entity, "--alter", "--add-config", "cordoned.log.dirs=*")
        tools.move_to(sorted(set(life.brokers.running) - {broker_id}))
        assert all(broker_id not in each for each in life.replicas().values())
        life.brokers.stop(broker_id)
        if broker_id == LEAVING[0]:
            grown = ("--alter", "--topic", "side", "--partitions", "5")
            tools("kafka-topics", "--create", "--topic", "side", "--partitions", "2")
            tools("kafka-topics", *grown)
        unregistered = tools("kafka-cluster", "unregister", "--id", str(broker_id))
        assert f"Broker {broker_id} is no longer registered" in unregistered

    tell(capsys, "3 → 5 → 3 brokers with Kafka's tools", lived(tmp_path, grow, shrink))
