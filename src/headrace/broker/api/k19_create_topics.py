"""CreateTopics (key 19), versions 2–7.

4 partitions and replicas by default with -1 (KIP-464) · 5 flexible, configs in the response
(KIP-525) · 6 a quota's throttling (KIP-599) · 7 topic ids (KIP-516).
Missing: nothing. The time-out is not needed: a decision takes one fsync.

Decided by the controller (`cluster.topics`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker import mutations
from headrace.broker.context import RequestContext
from headrace.broker.mutations import within_quota
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_STRICT_SINCE = 6


def handle(
    broker: "Broker", request: CreateTopicsRequest, context: RequestContext
) -> Promise[CreateTopicsResponse]:
    return within_quota(
        broker,
        request,
        context,
        sum(_partition_count(broker, topic) for topic in request.topics),
        strict_since=_STRICT_SINCE,
        refuse=lambda: CreateTopicsResponse(
            topics=[
                CreatableTopicResult(
                    name=topic.name, error_code=mutations.REFUSED, error_message=mutations.MESSAGE
                )
                for topic in request.topics
            ]
        ),
    )


def _partition_count(broker: "Broker", topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return (
        topic.num_partitions if topic.num_partitions > 0 else int(broker.config["num.partitions"])
    )
