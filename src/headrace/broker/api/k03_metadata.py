"""Metadata (key 3), versions 0–13.

1 null is all topics, an empty list none; controller id, racks · 2 cluster id · 4 says whether
topics may be created · 5 offline replicas · 7 leader epochs · 8 authorized operations (KIP-430) ·
9 flexible · 10 topic ids in responses (KIP-516) · 11 cluster's operations gone · 12 topics by id ·
13 an error of the whole response (KIP-1102).
Missing: nothing.

A topic that is not there is created if the client and `auto.create.topics.enable` allow it, and
the answer waits for it: the client sees the topic with its leaders at once.

Topics are not encoded here: `encoded_topics` has them, so that an answer with ten thousand
partitions is a join of bytes and holds nobody up.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.base.ids import NO_TOPIC_ID
from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.encoded_topics import TopicView
from headrace.broker.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from headrace.broker.reachable import ReachableBroker, reachable_brokers
from headrace.cluster.image import OFFSETS_TOPIC, TopicImage
from headrace.cluster.topic_names import CLUSTER_METADATA_TOPIC, topic_name_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_metadata import EncodedMetadataResponse
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_CREATE_TOPICS_VERSION = 7
_AUTO_CREATE_TIMEOUT_MS = 30_000


def handle(
    broker: "Broker", request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Promise[MetadataResponse]:
    if _wants_all(request, context.api_version):
        return _respond_with_all(broker, request, context)
    missing = _to_create(broker, request, context.api_version)
    if not missing:
        return _respond(broker, request, context, {})
    return _create(broker, missing, context.principal).map(
        lambda refused: _respond(broker, request, context, refused)
    )


def _respond_with_all(
    broker: "Broker", request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Promise[MetadataResponse]:
    """At once, unless more must be encoded first than may be in one turn of the loop."""
    view = _view(broker, context, reachable_brokers(broker, context.listener_name))
    steps = view.encoding(broker.image)
    if _is_done(steps):
        return _respond(broker, request, context, {})
    encoded: Promise[MetadataResponse] = Promise()

    def turn() -> None:
        if _is_done(steps):
            encoded.resolve(_respond(broker, request, context, {}))
        else:
            broker.timers.call_later(0, turn)

    broker.timers.call_later(0, turn)
    return encoded


def _is_done(steps: Iterator[None]) -> bool:
    """One step more; True if there was none."""
    return next(steps, steps) is steps


def _view(broker: "Broker", context: RequestContext, brokers: list[ReachableBroker]) -> TopicView:
    reachable = frozenset(one.broker_id for one in brokers)
    return broker.encoded_topics.view(
        broker.image, context.api_version, context.listener_name, reachable
    )


def _wants_all(request: MetadataRequest, api_version: int) -> bool:
    return request.topics is None or (api_version == 0 and not request.topics)


def _to_create(broker: "Broker", request: MetadataRequest, api_version: int) -> list[str]:
    """Names that are missing, legal and allowed to be created."""
    allowed = request.allow_auto_topic_creation or api_version < 4
    if not allowed or not broker.config.auto_create_topics_enable:
        return []
    existing = broker.image.topics_by_name
    wanted = dict.fromkeys(
        topic.name
        for topic in request.topics or ()
        if topic.name is not None and bytes(topic.topic_id) == NO_TOPIC_ID
    )
    return [
        name
        for name in wanted
        if name not in existing
        and name != CLUSTER_METADATA_TOPIC
        and topic_name_refusal(name) is None
    ]


def _create(broker: "Broker", names: list[str], principal: str) -> Promise[dict[str, int]]:
    """The errors of those that could not be created."""
    ordinary = [name for name in names if name != OFFSETS_TOPIC]
    created = _create_ordinary(broker, ordinary, principal) if ordinary else Promise.resolved({})
    if len(ordinary) == len(names):
        return created
    # The offsets topic has a shape of its own, and its log knows it.
    both: Promise[dict[str, int]] = Promise()

    def on_ordinary(settled: Promise[dict[str, int]]) -> None:
        if settled.error is not None:
            both.reject(settled.error)
            return
        refused = settled.value()
        broker.offsets_log.ensure_exists().then(lambda offsets: on_offsets(offsets, refused))

    def on_offsets(settled: Promise[int], refused: dict[str, int]) -> None:
        if settled.error is not None:
            both.reject(settled.error)
        else:
            error = settled.value()
            both.resolve({**refused, OFFSETS_TOPIC: error} if error else refused)

    created.then(on_ordinary)
    return both


def _create_ordinary(broker: "Broker", names: list[str], principal: str) -> Promise[dict[str, int]]:
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=-1, replication_factor=-1) for name in names
        ],
        timeout_ms=_AUTO_CREATE_TIMEOUT_MS,
    )

    def refused(response: object) -> dict[str, int]:
        assert isinstance(response, CreateTopicsResponse)
        return {
            result.name: result.error_code
            for result in response.topics
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }

    return broker.controller.handle(request, _CREATE_TOPICS_VERSION, principal).map(refused)


def _respond(
    broker: "Broker", request: MetadataRequest, context: RequestContext, refused: dict[str, int]
) -> MetadataResponse:
    version = context.api_version
    brokers = reachable_brokers(broker, context.listener_name)
    view = _view(broker, context, brokers)
    asked = request.include_topic_authorized_operations
    operations = TOPIC_OPERATIONS if asked else NOT_ASKED
    if _wants_all(request, version):
        topics = _all_topics(broker, view, operations)
    else:
        answers = _Answers(broker, view, version, operations, refused)
        topics = answers.of(request.topics or ())
    asked = request.include_cluster_authorized_operations
    return EncodedMetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=reachable.broker_id,
                host=reachable.host,
                port=reachable.port,
                rack=reachable.rack,
            )
            for reachable in brokers
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        encoded_topics=topics[0],
        topic_count=topics[1],
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )


def _all_topics(broker: "Broker", view: TopicView, operations: int) -> tuple[bytes, int]:
    topics = broker.image.topics_by_name
    end = view.layout.topic_end(operations)
    encoded = end.join([view.encoded(topic) for topic in topics.values()])
    return (encoded + end if topics else b"", len(topics))


class _Answers:
    """The topics that one request asked for by name or by id."""

    __slots__ = ("_broker", "_operations", "_refused", "_version", "_view")

    def __init__(
        self,
        broker: "Broker",
        view: TopicView,
        version: int,
        operations: int,
        refused: dict[str, int],
    ) -> None:
        self._broker = broker
        self._view = view
        self._version = version
        self._operations = operations
        self._refused = refused

    def of(self, requested: Iterable[MetadataRequestTopic]) -> tuple[bytes, int]:
        """Their bytes, and how many they are: each is answered once."""
        answers: list[bytes] = []
        seen: set[str | bytes] = set()
        for topic in requested:
            topic_id = bytes(topic.topic_id)
            # An id goes first: Java's members ask for the ids they were assigned under the name "".
            key = topic.name if topic_id == NO_TOPIC_ID and topic.name is not None else topic_id
            if key in seen:
                continue
            seen.add(key)
            if topic_id != NO_TOPIC_ID or topic.name is None:
                answers.append(self._by_id(topic_id, topic.name))
            else:
                answers.append(self._by_name(topic.name))
        return b"".join(answers), len(answers)

    def _by_id(self, topic_id: bytes, name: str | None) -> bytes:
        if self._version < 12 or topic_id == NO_TOPIC_ID:
            # Versions 10 and 11 have the field, but no server ever looked a topic up by it.
            return self._error(name or "", ErrorCode.INVALID_REQUEST, topic_id)
        topic = self._broker.image.topics_by_id.get(topic_id)
        if topic is None:
            return self._error(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
        return self._known(topic)

    def _by_name(self, name: str) -> bytes:
        topic = self._broker.image.topics_by_name.get(name)
        if topic is not None:
            return self._known(topic)
        if topic_name_refusal(name) is not None:
            return self._error(name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        return self._error(name, self._refused.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))

    def _known(self, topic: TopicImage) -> bytes:
        return self._view.encoded(topic) + self._view.layout.topic_end(self._operations)

    def _error(self, name: str | None, error: int, topic_id: bytes = NO_TOPIC_ID) -> bytes:
        layout = self._view.layout
        start = layout.topic_start(int(error), name, topic_id, is_internal=False, count=0)
        return start + layout.topic_end(NOT_ASKED)
