"""As much of a broker as group APIs see, calls that go through bytes in any version, and the
steps that several tests begin with.
"""

from types import SimpleNamespace
from typing import Any, TypeVar

from tests.unit.broker.groups.stage import Stage, form, image_of, subscription, topic_image

from headrace.base.promise import Promise
from headrace.broker.api.registry import endpoint
from headrace.broker.context import RequestContext
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headrace.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from headrace.wire.kafka.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

R = TypeVar("R", bound=Message)

NODE_ID = 7
UNKNOWN_ID = b"?" * 16


class GroupBroker(SimpleNamespace):
    """Has what handlers reach for; `call` answers as a client would read it."""

    def __init__(self, **options: Any) -> None:
        stage = Stage(**options)
        stage.image = image_of(
            topic_image("t"), topic_image("u"), topic_image("__consumer_offsets", 3)
        )
        for topic in stage.image.topics_by_name.values():
            topic.partitions = [
                type(partition)(partition.index, NODE_ID, 0, (NODE_ID,), (NODE_ID,))
                for partition in topic.partitions
            ]
        super().__init__(
            stage=stage, node_id=NODE_ID, image=stage.image, clock=stage.clock, timers=stage.timers
        )

    @property
    def groups(self) -> Any:
        return self.stage.coordinator

    def advertised(self, listener_name: str) -> tuple[str, int]:
        return {"PLAINTEXT": ("broker.example", 9092)}[listener_name]

    def ask(self, request: Message, version: int, client_id: str | None = "app") -> Promise[Any]:
        """Send a request as bytes; a promise of the response, read back from bytes."""
        served = endpoint(request.API_KEY)
        assert served.api.serves(version)
        received, _ = decode(type(request), encode(request, version), version)
        context = RequestContext(
            request.API_KEY, version, 1, client_id, "127.0.0.1:5555", "PLAINTEXT"
        )
        answer = served.handle(self, received, context)
        if not isinstance(answer, Promise):
            answer = Promise.resolved(answer)

        def through_bytes(response: Message) -> Message:
            data = encode(response, version)
            read, end = decode(type(response), data, version)
            assert end == len(data)
            return read

        return answer.map(through_bytes)

    def call(self, request: Message, version: int, response_class: type[R]) -> R:
        answer = self.ask(request, version).value()
        assert isinstance(answer, response_class)
        return answer


def versions_of(request_class: type[Message]) -> range:
    low, high = request_class.VERSIONS
    return range(low, high + 1)


def join_request(member_id: str = "", **fields: object) -> JoinGroupRequest:
    values: dict[str, object] = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription("t"))],
    }
    return JoinGroupRequest(**{**values, **fields})  # type: ignore[arg-type]


def enter(broker: GroupBroker, version: int, **fields: object) -> JoinGroupResponse:
    answer = broker.ask(join_request(**fields), version)
    if answer.settled and answer.value().error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = broker.ask(join_request(answer.value().member_id, **fields), version)
    broker.stage.settle()
    response = answer.value()
    assert isinstance(response, JoinGroupResponse)
    return response


def sync(
    broker: GroupBroker, joined: JoinGroupResponse, version: int, instance_id: str | None = None
) -> SyncGroupResponse:
    return broker.call(
        SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance_id if version >= 3 else None,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[
                SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
            ],
        ),
        version,
        SyncGroupResponse,
    )


def busy_broker() -> GroupBroker:
    broker = GroupBroker()
    form(broker.stage, broker.stage.actor("ann", group_instance_id="a"))
    broker.stage.commit({("t", 0): 1}, group_id="lone")
    return broker


def commit(
    broker: GroupBroker,
    version: int,
    offsets: dict[tuple[str, int], int],
    **fields: object,
) -> dict[tuple[str, int], int]:
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in offsets.items():
        topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
        if version >= 10:
            known = broker.image.topics_by_name.get(name)
            topic.topic_id = known.topic_id if known else UNKNOWN_ID
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata="note"
            )
        )
    request = OffsetCommitRequest(group_id="g", topics=list(topics.values()), **fields)  # type: ignore[arg-type]
    response = broker.call(request, version, OffsetCommitResponse)
    ids = {topic.topic_id: topic.name for topic in topics.values()}
    return {
        (ids[topic.topic_id] if version >= 10 else topic.name, partition.partition_index): (
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def fetch(
    broker: GroupBroker, version: int, wanted: dict[str, list[int]] | None
) -> tuple[int, dict[tuple[str, int], tuple[int, str | None, int]]]:
    """The group's error, and (offset, metadata, error) of each partition."""
    if version < 8:
        topics = None
        if wanted is not None:
            topics = [
                OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
                for name, indexes in wanted.items()
            ]
        single = broker.call(
            OffsetFetchRequest(group_id="g", topics=topics), version, OffsetFetchResponse
        )
        return single.error_code, {
            (topic.name, p.partition_index): (p.committed_offset, p.metadata, p.error_code)
            for topic in single.topics
            for p in topic.partitions
        }
    by_name = broker.image.topics_by_name
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    if wanted is not None:
        group.topics = [
            OffsetFetchRequestTopics(
                name=name,
                topic_id=by_name[name].topic_id if name in by_name else UNKNOWN_ID,
                partition_indexes=indexes,
            )
            for name, indexes in wanted.items()
        ]
    response = broker.call(OffsetFetchRequest(groups=[group]), version, OffsetFetchResponse)
    (answer,) = response.groups
    names = {topic.topic_id: topic.name for topic in by_name.values()}
    return answer.error_code, {
        (
            names.get(topic.topic_id, "?") if version >= 10 else topic.name,
            p.partition_index,
        ): (p.committed_offset, p.metadata, p.error_code)
        for topic in answer.topics
        for p in topic.partitions
    }
