"""What the controller is told of where replicas lie: AssignReplicasToDirs (KIP-858).

Owns: what is still to be told, one request under way, retries. Must not know: why a replica is
where it is.

A broker with several directories tells of each replica soon after it has it, many in a request:
when a directory fails the controller knows what it takes along.

A replica that can't be read is told to lie in no directory (`DIRECTORY_LOST`): it leads no more,
and another replica does. Once it was made anew its real directory is told.

Invariants: one request is under way; of two words about a partition the later one is told last;
what is not answered is told again until it is, or `close`.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headrace.base.clock import Timers
from headrace.base.promise import Promise
from headrace.broker.context import ANONYMOUS
from headrace.wire.kafka.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

Key = tuple[bytes, int]
RETRY_MS = 200
ASKED_MAX = 2_250
"""Replicas in one request, as Kafka bounds it."""


class AskController(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class DirectoryAssignments:
    def __init__(
        self,
        me: int,
        broker_epoch: Callable[[], int],
        controller: AskController,
        timers: Timers,
    ) -> None:
        self._me = me
        self._broker_epoch = broker_epoch
        self._controller = controller
        self._timers = timers
        self._waiting: dict[Key, bytes] = {}
        self._asked: dict[Key, bytes] = {}
        self._is_closed = False

    def assign(self, key: Key, directory_id: bytes) -> None:
        if self._is_closed or self._asked.get(key) == directory_id:
            return
        self._waiting[key] = directory_id
        self._timers.call_soon(self._ask)

    def close(self) -> None:
        self._is_closed = True
        self._waiting = {}

    def _ask(self) -> None:
        if self._asked or not self._waiting or self._is_closed:
            return
        due = list(self._waiting.items())
        self._asked, self._waiting = dict(due[:ASKED_MAX]), dict(due[ASKED_MAX:])
        request = AssignReplicasToDirsRequest(
            broker_id=self._me,
            broker_epoch=self._broker_epoch(),
            directories=_directories(self._asked),
        )
        version = AssignReplicasToDirsRequest.VERSIONS[1]
        self._controller.handle(request, version, ANONYMOUS).then(self._on_settled)

    def _on_settled(self, settled: Promise[Any]) -> None:
        asked, self._asked = self._asked, {}
        if self._is_closed:
            return
        response = None if settled.error is not None else settled.value()
        if isinstance(response, AssignReplicasToDirsResponse) and not response.error_code:
            # What was refused is about a partition that is not ours any more.
            self._ask()
            return
        for key, directory_id in asked.items():
            self._waiting.setdefault(key, directory_id)
        self._timers.call_later(RETRY_MS, self._ask)


def _directories(asked: dict[Key, bytes]) -> list[DirectoryData]:
    directories: dict[bytes, dict[bytes, TopicData]] = {}
    for (topic_id, index), directory_id in asked.items():
        topics = directories.setdefault(directory_id, {})
        topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
        topic.partitions.append(PartitionData(partition_index=index))
    return [
        DirectoryData(id=directory_id, topics=list(topics.values()))
        for directory_id, topics in directories.items()
    ]
