"""ApiVersions (key 18), versions 0–4.

1 throttle time · 3 flexible, client software, features (KIP-511, KIP-584) · 4 features whose
lowest level is 0 (KIP-1022).
Missing: nothing.

The response header is always version 0 (`wire.kafka.frames`), and a version of the future is
answered with `unsupported_version_response` in version 0's body: clients settle theirs by it.
"""

from typing import TYPE_CHECKING

from headrace.broker.api.registry import APIS, BY_KEY
from headrace.broker.context import RequestContext
from headrace.cluster.api_versions import api_versions, unsupported_version
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

API_VERSIONS_KEY = 18
_WITHOUT_TELEMETRY = tuple(api for api in APIS if api.key not in (71, 72))


def handle(
    broker: "Broker", request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    # Clients that see the telemetry APIs use them: they are told of them where anybody asks.
    served = APIS if broker.telemetry.is_wanted else _WITHOUT_TELEMETRY
    return api_versions(request, context.api_version, served, broker.image)


def unsupported_version_response() -> ApiVersionsResponse:
    """For a version that is not served: error 35 and this key's own range, to be sent as v0."""
    return unsupported_version(BY_KEY[API_VERSIONS_KEY])
