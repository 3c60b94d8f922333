"""A member of a share group that does one request at a time, in bytes, and tells each answer.

Owns: what a member remembers: its epoch in the group, the epoch and the partitions of its share
session, and which answers it waits for. Must not know: what the broker keeps.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tests.unit.broker.dialogue import Client

from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import share_acknowledge, share_fetch
from headrace.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from headrace.wire.kafka.records import read_batches, read_records

GROUP = "g"
VERSION, HEARTBEAT_VERSION = 2, 1
LEAVES, ENDS = -1, -1
TYPES = {"gap": 0, "accept": 1, "release": 2, "reject": 3, "renew": 4}

Where = tuple[bytes, int]
"""Topic id and partition."""
Acks = dict[Where, list[tuple[int, int, int]]]
"""First and last offset, and the type."""


class Member(Client):
    def __init__(self, broker: SimulatedBroker, name: str, topics: list[str]) -> None:
        super().__init__(broker)
        self.name = name
        self.topics = topics
        self.epoch = 0
        self.is_in_doubt = False
        """Its last heartbeat was not answered: the next one tells everything."""
        self.assigned: set[Where] = set()
        self.session_epoch = 0
        self.in_session: set[Where] = set()
        self._awaited: list[tuple[type, int, Callable[[Any], str | None]]] = []

    @property
    def is_waiting(self) -> bool:
        return bool(self._awaited)

    def connect_anew(self) -> None:
        """Another connection: what the old one was owed never comes."""
        super().__init__(self.broker)
        self._awaited.clear()
        self.session_epoch = 0
        self.in_session.clear()

    def told(self) -> list[str]:
        """What has been answered since the last look."""
        lines = []
        for frame in self.transport.take():
            request_class, version, read = self._awaited.pop(0)
            line = read(self.read(frame, request_class, version))
            if line is not None:
                lines.append(f"{self.name}: {line}")
        return lines

    def _send(self, request: Any, version: int, read: Callable[[Any], str | None]) -> None:
        self._awaited.append((type(request), version, read))
        self.transport.feed(self.frame(request, version))
        self.broker.settle()

    # -- the group ---------------------------------------------------------------------------

    def beat(self, epoch: int | None = None, *, is_lost: bool = False) -> None:
        asked = self.epoch if epoch is None else epoch
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=asked,
            subscribed_topic_names=self.topics if asked == 0 or self.is_in_doubt else None,
        )
        self.is_in_doubt = is_lost
        self._send(request, HEARTBEAT_VERSION, _nothing if is_lost else self._on_beat)

    def _on_beat(self, answer: Any) -> str:
        if answer.error_code:
            error = ErrorCode.of(answer.error_code)
            if error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
                self.epoch = 0
                self.assigned.clear()
            return f"beat {error.name}"
        self.epoch = max(answer.member_epoch, 0)
        if answer.member_epoch == LEAVES:
            self.assigned.clear()
            return "left"
        if answer.assignment is None:
            return f"epoch {self.epoch}, as before"
        self.assigned = {
            (topic.topic_id, index)
            for topic in answer.assignment.topic_partitions
            for index in topic.partitions
        }
        return f"epoch {self.epoch}, {self.parts(self.assigned)}"

    # -- records -----------------------------------------------------------------------------

    def fetch(self, acks: Acks, *, max_wait_ms: int, epoch: int | None, **fields: int) -> None:
        """Names what is new in its session, what it forgets, and what it acknowledges."""
        asked = self.session_epoch if epoch is None else epoch
        known = self.in_session if asked > 0 else set()
        forgotten = known - self.assigned
        request = share_fetch.ShareFetchRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=asked,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_records=fields.get("max", 500),
            batch_size=500,
            share_acquire_mode=fields.get("limit", 0),
            is_renew_ack=_renews(acks),
            topics=[
                share_fetch.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in self._by_topic(
                    (self.assigned - known) | set(acks), acks
                )
            ],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[index])
                for topic_id, index in sorted(forgotten)
            ],
        )
        self._send(request, VERSION, lambda answer: self._on_fetched(answer, asked, set(acks)))

    def _by_topic(
        self, wheres: set[Where], acks: Acks
    ) -> list[tuple[bytes, list[share_fetch.FetchPartition]]]:
        found: dict[bytes, list[share_fetch.FetchPartition]] = {}
        for where in sorted(wheres):
            batches = [
                share_fetch.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in acks.get(where, [])
            ]
            found.setdefault(where[0], []).append(
                share_fetch.FetchPartition(
                    partition_index=where[1], acknowledgement_batches=batches
                )
            )
        return list(found.items())

    def _on_fetched(self, answer: Any, asked: int, acked: set[Where]) -> str:
        if answer.error_code:
            return f"fetch {self._refused(answer)}"
        self._advance(asked)
        self.in_session = set() if asked == ENDS else set(self.assigned)
        rows = {
            (topic.topic_id, row.partition_index): row
            for topic in answer.responses
            for row in topic.partitions
        }
        told = [self._row(where, rows[where], where in acked) for where in sorted(rows)]
        return f"fetch {', '.join(told) or '-'}"

    def _row(self, where: Where, row: Any, is_acked: bool) -> str:
        words = [self.parts([where])]
        if is_acked:
            words.append(f"acknowledged {ErrorCode.of(row.acknowledge_error_code).name}")
        if row.error_code:
            words.append(ErrorCode.of(row.error_code).name)
        held: set[int] = set()
        for each in row.acquired_records:
            words.append(f"{each.first_offset}-{each.last_offset} ×{each.delivery_count}")
            held.update(range(each.first_offset, each.last_offset + 1))
        sent = {
            record.offset
            for _, whole in read_batches(row.records or b"")
            for record in read_records(whole)
        }
        assert held <= sent, "what is acquired is sent"
        return " ".join(words)

    def acknowledge(self, acks: Acks, epoch: int | None) -> None:
        asked = self.session_epoch if epoch is None else epoch
        topics = []
        for (topic_id, index), batches in sorted(acks.items()):
            acked = [
                share_acknowledge.AcknowledgementBatch(
                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                )
                for first, last, kind in batches
            ]
            partition = share_acknowledge.AcknowledgePartition(
                partition_index=index, acknowledgement_batches=acked
            )
            topics.append(
                share_acknowledge.AcknowledgeTopic(topic_id=topic_id, partitions=[partition])
            )
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.name,
            share_session_epoch=asked,
            is_renew_ack=_renews(acks),
            topics=topics,
        )
        self._send(request, VERSION, lambda answer: self._on_acknowledged(answer, asked))

    def _on_acknowledged(self, answer: Any, asked: int) -> str:
        if answer.error_code:
            return f"acknowledge {self._refused(answer)}"
        self._advance(asked)
        rows = [
            f"{self.parts([(topic.topic_id, row.partition_index)])} "
            f"{ErrorCode.of(row.error_code).name}"
            for topic in answer.responses
            for row in topic.partitions
        ]
        return f"acknowledged {', '.join(rows) or '-'}"

    def _advance(self, asked: int) -> None:
        self.session_epoch = 0 if asked == ENDS else asked + 1

    def _refused(self, answer: Any) -> str:
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.SHARE_SESSION_NOT_FOUND:
            self.session_epoch = 0
        return error.name

    def parts(self, wheres: Iterable[Where]) -> str:
        names = {topic.topic_id: name for name, topic in self._topics().items()}
        by_name: dict[str, list[int]] = {}
        for topic_id, index in sorted(wheres):
            by_name.setdefault(names[topic_id], []).append(index)
        return " ".join(f"{name}:{','.join(map(str, i))}" for name, i in by_name.items()) or "-"

    def _topics(self) -> dict[str, Any]:
        return dict(self.broker.broker.image.topics_by_name)


def _renews(acks: Acks) -> bool:
    return any(kind == TYPES["renew"] for batches in acks.values() for _, _, kind in batches)


def _nothing(_: Any) -> None:
    return None
