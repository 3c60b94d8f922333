"""DeleteTopics (key 20), versions 1–6.

3 TOPIC_DELETION_DISABLED · 4 flexible · 5 error messages, a quota's throttling (KIP-599) ·
6 topics by id (KIP-516).
Missing: quotas on mutations.

Decided by the controller (`cluster.topics`). The files go later: the folder is renamed at once and
removed after `file.delete.delay.ms`.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: DeleteTopicsRequest, context: RequestContext
) -> Promise[DeleteTopicsResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
