"""PushTelemetry (key 72), version 0 (KIP-714).

A client's metrics as OTLP; the newest of each is on this broker's metrics page.
Missing: histograms and summaries, which no Kafka client sends.
"""

from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.push_telemetry import (
    PushTelemetryRequest,
    PushTelemetryResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: PushTelemetryRequest, _context: RequestContext
) -> PushTelemetryResponse:
    error = broker.telemetry.push(
        bytes(request.client_instance_id),
        request.subscription_id,
        request.compression_type,
        bytes(request.metrics),
        is_last=request.terminating,
        now_ms=broker.clock.monotonic_ms(),
    )
    return PushTelemetryResponse(error_code=int(error))
