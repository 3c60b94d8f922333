"""CreatePartitions (key 37), versions 0–3.

2 flexible · 3 a quota's throttling (KIP-599).
Missing: nothing.

Decided by the controller (`cluster.partitions`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker import mutations
from headrace.broker.context import RequestContext
from headrace.broker.mutations import within_quota
from headrace.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

_STRICT_SINCE = 3


def handle(
    broker: "Broker", request: CreatePartitionsRequest, context: RequestContext
) -> Promise[CreatePartitionsResponse]:
    return within_quota(
        broker,
        request,
        context,
        sum(_added_count(broker, topic) for topic in request.topics),
        strict_since=_STRICT_SINCE,
        refuse=lambda: CreatePartitionsResponse(
            results=[
                CreatePartitionsTopicResult(
                    name=topic.name, error_code=mutations.REFUSED, error_message=mutations.MESSAGE
                )
                for topic in request.topics
            ]
        ),
    )


def _added_count(broker: "Broker", topic: CreatePartitionsTopic) -> int:
    known = broker.image.topics_by_name.get(topic.name)
    return 0 if known is None else max(0, topic.count - len(known.partitions))
