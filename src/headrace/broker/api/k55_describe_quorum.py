"""DescribeQuorum (key 55), versions 0–2.

1 times of fetches (KIP-836) · 2 directory ids and endpoints (KIP-853).
Missing: quorums other than `__cluster_metadata`.

Answered by the leader of the metadata quorum (`quorum.describe`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: DescribeQuorumRequest, context: RequestContext
) -> Promise[DescribeQuorumResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
