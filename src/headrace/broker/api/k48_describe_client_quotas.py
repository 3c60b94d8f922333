"""DescribeClientQuotas (key 48), versions 0–1.

1 flexible. Exact names, defaults, or any of a type; strict filters (KIP-546).
Missing: nothing.

Answered from this broker's own image of the metadata.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.cluster.quotas import describe_client_quotas
from headrace.wire.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeClientQuotasRequest, _context: RequestContext
) -> DescribeClientQuotasResponse:
    return describe_client_quotas(broker.image, request)
