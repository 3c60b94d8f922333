"""DeleteTopics (key 20), versions 1–6.

3 TOPIC_DELETION_DISABLED · 4 flexible · 5 error messages, a quota's throttling (KIP-599) ·
6 topics by id (KIP-516).
Missing: nothing.

Decided by the controller (`cluster.topics`). The files go later: the folder is renamed at once and
removed after `file.delete.delay.ms`.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker import mutations
from headrace.broker.context import RequestContext
from headrace.broker.mutations import within_quota
from headrace.wire.kafka.message import ZERO_UUID
from headrace.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_STRICT_SINCE = 5


def handle(
    broker: "Broker", request: DeleteTopicsRequest, context: RequestContext
) -> Promise[DeleteTopicsResponse]:
    image = broker.image
    named = [image.topics_by_name.get(name) for name in request.topic_names]
    for state in request.topics:
        by_id = image.topics_by_id.get(bytes(state.topic_id))
        named.append(by_id if state.name is None else image.topics_by_name.get(state.name))
    return within_quota(
        broker,
        request,
        context,
        sum(len(topic.partitions) for topic in named if topic is not None),
        strict_since=_STRICT_SINCE,
        refuse=lambda: _refused(request),
    )


def _refused(request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    asked: list[tuple[str | None, bytes]] = [(name, ZERO_UUID) for name in request.topic_names]
    asked += [(state.name, bytes(state.topic_id)) for state in request.topics]
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=name,
                topic_id=topic_id,
                error_code=mutations.REFUSED,
                error_message=mutations.MESSAGE,
            )
            for name, topic_id in asked
        ]
    )
