"""CreateTopics (key 19), versions 2–7.

4 partitions and replicas by default with -1 (KIP-464) · 5 flexible, configs in the response
(KIP-525) · 6 a quota's throttling (KIP-599) · 7 topic ids (KIP-516).
Missing: quotas on mutations. The time-out is not needed: a decision takes one fsync.

Decided by the controller (`cluster.topics`).
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: CreateTopicsRequest, context: RequestContext
) -> Promise[CreateTopicsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
