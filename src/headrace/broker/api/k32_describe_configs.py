"""DescribeConfigs (key 32), versions 1–4.

1 sources and synonyms (KIP-226) · 3 types and documentation (KIP-569) · 4 flexible.
Topics, brokers, groups (KIP-848, KIP-932) and client metrics (KIP-714). Missing: broker loggers.

Answered by `cluster.describe_configs`.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.cluster.describe_configs import ConfiguredNode, describe_configs
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DescribeConfigsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DescribeConfigsResponse:
    return describe_configs(ConfiguredNode(broker.node_id, broker.config, broker.image), request)
