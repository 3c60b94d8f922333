"""UpdateFeatures (key 57), versions 0–2.

1 upgrade types, dry runs (KIP-778) · 2 results by feature are gone (KIP-1022).
Missing: nothing.

Decided by the active controller (`cluster.features`), wherever it is.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: UpdateFeaturesRequest, context: RequestContext
) -> Promise[UpdateFeaturesResponse]:
    return broker.controller.handle(request, context.api_version, context.principal)
