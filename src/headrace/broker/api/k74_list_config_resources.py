"""ListConfigResources (key 74), versions 0–1.

0 client metrics alone (KIP-714) · 1 any type: topics, brokers and their loggers, client metrics,
groups (KIP-1142).
Missing: nothing. Groups are those with configs of their own.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.cluster.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

ALL_TYPES = (
    RESOURCE_TOPIC,
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
)


def handle(
    broker: "Broker", request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    if context.api_version == 0:
        wanted: tuple[int, ...] = (RESOURCE_CLIENT_METRICS,)
    else:
        wanted = tuple(request.resource_types) or ALL_TYPES
    if not set(wanted) <= set(ALL_TYPES):
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION))
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(wanted)
            for name in _names(broker, kind)
        ]
    )


def _names(broker: "Broker", kind: int) -> list[str]:
    image = broker.image
    if kind == RESOURCE_TOPIC:
        return sorted(image.topics_by_name)
    if kind in (RESOURCE_BROKER, RESOURCE_BROKER_LOGGER):
        return [str(broker_id) for broker_id in sorted(image.brokers)]
    return sorted(name for each, name in image.configs if each == kind)
