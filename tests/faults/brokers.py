"""Brokers that come and go, each a process with a rack, around a quorum of three controllers.

Owns: the processes and where they are. Must not know: what is done to the cluster.
"""

import contextlib
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.faults.load import value_of
from tests.faults.readers import batches, segments
from tests.faults.replicas import Led, led_at
from tests.interop.nodes import running_node
from tests.interop.test_quorum_nodes import free_ports, new_id

from headrace.wire.kafka.records import read_records

CONTROLLERS = (100, 101, 102)
WAIT_S = 120.0
SETTINGS = {
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "group.initial.rebalance.delay.ms": 0,
}


class Brokers:
    """`racks`: by broker id, of all that may ever run."""

    def __init__(self, folder: Path, racks: dict[int, str]) -> None:
        self._folder = folder
        self.racks = racks
        self._cluster_id = new_id()
        ports = free_ports(len(CONTROLLERS) + len(racks), 20_000)
        addresses = [f"127.0.0.1:{port}" for port in ports]
        self._controllers = dict(zip(CONTROLLERS, addresses, strict=False))
        self.addresses = dict(zip(racks, addresses[len(CONTROLLERS) :], strict=True))
        self._running_controllers: dict[int, contextlib.ExitStack] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._running: dict[int, contextlib.ExitStack] = {}

    def __enter__(self) -> "Brokers":
        try:
            for node_id in CONTROLLERS:
                self._start_controller(node_id)
        except BaseException:
            self._close()
            raise
        return self

    def _start_controller(self, node_id: int) -> None:
        words = ["--data", str(self._folder / f"controller-{node_id}"), "--node-id", str(node_id)]
        words += ["--listen", self._controllers[node_id]]
        voters = ",".join(f"{each}@{where}" for each, where in self._controllers.items())
        words += self._settings({"controller.quorum.voters": voters})
        stack = self._running_controllers[node_id] = contextlib.ExitStack()
        log = self._folder / f"controller-{node_id}.log"
        self._processes[node_id] = stack.enter_context(running_node(log, "controller", *words))

    def kill_controller(self, node_id: int) -> None:
        """kill -9, and a start on the same disk."""
        self._processes[node_id].kill()
        self._running_controllers.pop(node_id).close()
        self._start_controller(node_id)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        for broker_id in list(self._running):
            self.stop(broker_id)
        for stack in self._running_controllers.values():
            stack.close()

    def _settings(self, more: dict[str, str]) -> list[str]:
        words: list[str] = []
        for key, value in {**SETTINGS, "cluster.id": self._cluster_id, **more}.items():
            words += ["--set", f"{key}={value}"]
        return words

    @property
    def servers(self) -> str:
        return ",".join(self.addresses.values())

    @property
    def running(self) -> list[int]:
        return list(self._running)

    def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            words = ["--data", str(self._data(broker_id)), "--node-id", str(broker_id)]
            words += ["--listen", self.addresses[broker_id]]
            words += self._settings(
                {
                    "process.roles": "broker",
                    "broker.rack": self.racks[broker_id],
                    "controller.quorum.bootstrap.servers": ",".join(self._controllers.values()),
                }
            )
            stack = contextlib.ExitStack()
            log = self._folder / f"broker-{broker_id}.log"
            stack.enter_context(running_node(log, "broker", *words))
            self._running[broker_id] = stack

    def stop(self, broker_id: int) -> None:
        self._running.pop(broker_id).close()

    def _data(self, broker_id: int) -> Path:
        return self._folder / f"broker-{broker_id}"

    # What they say and hold.

    def await_whole(self, topic: str, replicas: int) -> dict[int, Led]:
        """Until all that run describe the topic alike, with all replicas in sync."""
        deadline_s = time.monotonic() + WAIT_S
        told: list[dict[int, Led]] = []
        while time.monotonic() < deadline_s:
            told = [led_at(self.addresses[each], topic) for each in self._running]
            if all(_is_whole(each, replicas) and each == told[0] for each in told):
                return told[0]
            time.sleep(0.05)
        raise AssertionError(f"after {WAIT_S:g} s still {told}")

    def held(self, broker_id: int, topic: str, partition: int) -> list[tuple[int, int, str]]:
        """Offset, leader epoch and value of every record in a replica's files."""
        records = []
        for log in segments(self._data(broker_id), topic, partition):
            content = log.read_bytes()
            for position, header in batches(content):
                batch = memoryview(content)[position : position + header.size_bytes]
                for record in read_records(batch):
                    value = value_of(bytes(record.value or b""))
                    records.append((record.offset, header.partition_leader_epoch, value))
        return records


def _is_whole(led: dict[int, Led], replicas: int) -> bool:
    return bool(led) and all(
        each.leader in each.isr and len(each.isr) == replicas for each in led.values()
    )
