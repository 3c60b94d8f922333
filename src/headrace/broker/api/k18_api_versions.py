"""ApiVersions (key 18), versions 0–4.

1 throttle time · 3 flexible, client software, features (KIP-511, KIP-584) · 4 features whose
lowest level is 0 (KIP-1022).
Missing: nothing.

The response header is always version 0 (`wire.kafka.frames`), and a version of the future is
answered with `unsupported_version_response` in version 0's body: clients settle theirs by it.
"""

import re
from functools import cache
from typing import TYPE_CHECKING

from headrace.broker.api.registry import APIS, BY_KEY
from headrace.broker.context import RequestContext
from headrace.cluster.features import SUPPORTED
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

API_VERSIONS_KEY = 18
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(
    broker: "Broker", request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    if context.api_version >= 3 and not _is_software_known(request):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    return response_for(context.api_version, broker.image)


def response_for(api_version: int, image: ClusterImage) -> ApiVersionsResponse:
    """What this broker serves, and the features that the cluster has finalized."""
    return ApiVersionsResponse(
        api_keys=_api_keys(),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            # Clients of version 3 take a lowest level of 0 for a broken answer.
            if low > 0 or api_version >= 4
        ],
        finalized_features_epoch=image.last_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in image.features.items()
        ],
    )


def unsupported_version_response() -> ApiVersionsResponse:
    """For a version that is not served: error 35 and this key's own range, to be sent as v0."""
    own = BY_KEY[API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=int(ErrorCode.UNSUPPORTED_VERSION),
        api_keys=[
            ApiVersion(api_key=own.key, min_version=own.min_version, max_version=own.max_version)
        ],
    )


@cache
def _api_keys() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for api in APIS
    ]


def _is_software_known(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    )
