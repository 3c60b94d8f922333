"""AlterClientQuotas (key 49), versions 0–1.

1 flexible (KIP-546). Quotas of users, client ids, both, addresses and their defaults.
Missing: nothing.

Decided by the controller (`cluster.quotas`); every broker holds its clients to it by itself.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: AlterClientQuotasRequest, context: RequestContext
) -> Promise[AlterClientQuotasResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
