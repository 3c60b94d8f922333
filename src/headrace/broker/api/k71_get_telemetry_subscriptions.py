"""GetTelemetrySubscriptions (key 71), version 0 (KIP-714).

Which metrics this client is to push, and how often: what `client-metrics` configs say of it.
Missing: nothing.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.telemetry import ACCEPTED
from headrace.cluster.image import RESOURCE_CLIENT_METRICS
from headrace.wire.kafka.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    instance_id = bytes(request.client_instance_id)
    if not any(instance_id):
        instance_id = broker.random.randbytes(16)
    address, _, port = context.peer.rpartition(":")
    about = {
        "client_instance_id": instance_id.hex(),
        "client_id": context.client_id or "",
        "client_software_name": context.software_name,
        "client_software_version": context.software_version,
        "client_source_address": address.strip("[]"),
        "client_source_port": port,
    }
    configs = {
        name: values
        for (kind, name), values in broker.image.configs.items()
        if kind == RESOURCE_CLIENT_METRICS
    }
    now_ms = broker.clock.monotonic_ms()
    wanted = broker.telemetry.subscribe(instance_id, about, configs, now_ms)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED],
        push_interval_ms=wanted.push_interval_ms,
        telemetry_max_bytes=broker.telemetry.max_bytes,
        delta_temporality=True,
        requested_metrics=list(wanted.metrics),
    )
