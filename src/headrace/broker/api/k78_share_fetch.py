"""ShareFetch (key 78), versions 1–2 (KIP-932).

1 records are counted (MaxRecords, BatchSize) · 2 ShareAcquireMode (KIP-1206), renewal of locks
(KIP-1222)

The request's acknowledgements are taken first; the answer waits until they are kept. It names the
partitions that have records, an error, or the outcome of an acknowledgement. Refused with
UNSUPPORTED_VERSION where the cluster's `share.version` is 0.
"""

from typing import TYPE_CHECKING

from headrace.base.network import Part
from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.share.acknowledging import Acknowledged, Asked, acknowledge, checked
from headrace.broker.share.fetching import Rows, ShareFetch, with_acknowledged
from headrace.broker.share.leaders import Leaders
from headrace.broker.share.partition.states import AcquireMode
from headrace.broker.share.sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    PartitionKey,
    SessionKey,
    ShareSession,
)
from headrace.cluster.features import SHARE_VERSION
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_share_fetch import (
    Endpoint,
    ShareFetchedPartition,
    encode_share_fetch_response,
)
from headrace.wire.kafka.messages.share_fetch import ShareFetchRequest

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_RENEW_SINCE = 2


class ShareFetchAnswer:
    """A response whose records are regions of files; encoded by hand."""

    __slots__ = ("endpoints", "error", "lock_timeout_ms", "message", "throttle_time_ms", "topics")

    def __init__(self, error: ErrorCode = ErrorCode.NONE, message: str | None = None) -> None:
        self.throttle_time_ms = 0
        self.error = error
        self.message = message or (error.message if error else None)
        self.lock_timeout_ms = 0
        self.topics: dict[bytes, list[ShareFetchedPartition]] = {}
        self.endpoints: list[Endpoint] = []

    @property
    def record_bytes(self) -> int:
        """What counts against `consumer_byte_rate`."""
        return sum(row.records_length for rows in self.topics.values() for row in rows)

    def encode_parts(self, correlation_id: int) -> list[Part]:
        return encode_share_fetch_response(
            correlation_id,
            int(self.error),
            self.message,
            self.lock_timeout_ms,
            list(self.topics.items()),
            self.endpoints,
            self.throttle_time_ms,
        )


def handle(
    broker: "Broker", request: ShareFetchRequest, context: RequestContext
) -> ShareFetchAnswer | Promise[ShareFetchAnswer]:
    refusal = _refusal(broker, request)
    if refusal is not None:
        return refusal
    assert request.group_id is not None
    assert request.member_id is not None
    key = (request.group_id, request.member_id)
    asked = _acknowledgements(broker, request, context.api_version)
    session = _session(broker, request, key, context.connection_id, bool(asked))
    if isinstance(session, ErrorCode):
        return ShareFetchAnswer(session)
    acknowledged = acknowledge(broker, key, asked)
    if request.share_session_epoch == FINAL_EPOCH:
        return acknowledged.map(lambda errors: _on_final(broker, key, errors, context))
    fetched = ShareFetch(broker, request, session, context.connection_id).start()
    return _both(acknowledged, fetched).map(lambda rows: _answer(broker, key[0], rows, context))


def _refusal(broker: "Broker", request: ShareFetchRequest) -> ShareFetchAnswer | None:
    if broker.image.features.get(SHARE_VERSION, 0) < 1:
        return ShareFetchAnswer(
            ErrorCode.UNSUPPORTED_VERSION, "The cluster does not use share groups."
        )
    if not request.group_id:
        return ShareFetchAnswer(ErrorCode.INVALID_REQUEST, "The group id is missing.")
    if not request.member_id:
        return ShareFetchAnswer(ErrorCode.INVALID_REQUEST, "The member id is missing.")
    if request.share_acquire_mode not in tuple(AcquireMode):
        return ShareFetchAnswer(ErrorCode.INVALID_REQUEST, "No such acquire mode.")
    asks_records = request.max_wait_ms or request.min_bytes or request.max_records
    if request.is_renew_ack and asks_records:
        return ShareFetchAnswer(
            ErrorCode.INVALID_REQUEST, "A request that renews locks fetches no records."
        )
    return None


def _acknowledgements(broker: "Broker", request: ShareFetchRequest, version: int) -> Asked:
    assert request.group_id is not None
    may_renew = (
        version >= _RENEW_SINCE
        and request.is_renew_ack
        and broker.shares.settings(request.group_id).may_renew
    )
    return {
        (topic.topic_id, partition.partition_index): checked(
            partition.acknowledgement_batches, may_renew=may_renew
        )
        for topic in request.topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }


def _session(
    broker: "Broker",
    request: ShareFetchRequest,
    key: SessionKey,
    connection_id: int,
    acknowledges: bool,
) -> ShareSession | ErrorCode:
    sessions, epoch = broker.shares.sessions, request.share_session_epoch
    if epoch == INITIAL_EPOCH and acknowledges:
        return ErrorCode.INVALID_REQUEST  # nothing was given out in a session that begins now
    if epoch == INITIAL_EPOCH:
        session = sessions.open(key, connection_id)
    else:
        session = sessions.next(key, epoch)
    if isinstance(session, ShareSession) and epoch != FINAL_EPOCH:
        session.update(_named(request), _forgotten(request))
    return session


def _named(request: ShareFetchRequest) -> list[PartitionKey]:
    return [
        (topic.topic_id, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]


def _forgotten(request: ShareFetchRequest) -> list[PartitionKey]:
    return [
        (topic.topic_id, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def _both(acknowledged: Promise[Acknowledged], fetched: Promise[Rows]) -> Promise[Rows]:
    both: Promise[Rows] = Promise()

    def on_fetched(rows: Promise[Rows]) -> None:
        acknowledged.then(
            lambda errors: both.resolve(with_acknowledged(rows.value(), errors.value()))
        )

    fetched.then(on_fetched)
    return both


def _on_final(
    broker: "Broker", key: SessionKey, errors: Acknowledged, context: RequestContext
) -> ShareFetchAnswer:
    broker.shares.end_session(key)
    return _answer(broker, key[0], with_acknowledged({}, errors), context)


def _answer(
    broker: "Broker", group_id: str, rows: Rows, context: RequestContext
) -> ShareFetchAnswer:
    answer = ShareFetchAnswer()
    answer.lock_timeout_ms = broker.shares.settings(group_id).lock_duration_ms
    leaders = Leaders(broker, context.listener_name)
    for key, row in rows.items():
        leader = leaders.of(key, row.error_code or row.acknowledge_error_code)
        if leader is not None:
            row = row._replace(current_leader=leader)
        answer.topics.setdefault(key[0], []).append(row)
    answer.endpoints = list(leaders.endpoints.values())
    return answer
