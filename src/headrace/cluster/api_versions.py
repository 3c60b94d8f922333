"""What ApiVersions answers: a listener's table, and the features that the cluster has finalized.

Owns: the answer, for every listener that has a table. Must not know: which APIs are in one.
Spec: KIP-35, KIP-511 (software names; an unknown version is answered in version 0), KIP-584.
"""

import re
from collections.abc import Iterable

from headrace.cluster.features import shown_levels, shown_ranges
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from headrace.wire.kafka.served import Api

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def api_versions(
    request: ApiVersionsRequest, api_version: int, apis: Iterable[Api], image: ClusterImage
) -> ApiVersionsResponse:
    if api_version >= 3 and not _is_software_known(request):
        return ApiVersionsResponse(error_code=int(ErrorCode.INVALID_REQUEST))
    return ApiVersionsResponse(
        api_keys=[_row(api) for api in apis],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in shown_ranges().items()
            # Clients of version 3 take a lowest level of 0 for a broken answer.
            if low > 0 or api_version >= 4
        ],
        finalized_features_epoch=image.last_offset,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
            for name, level in shown_levels(image).items()
        ],
    )


def unsupported_version(own: Api) -> ApiVersionsResponse:
    """For a version that is not served: error 35 and this key's own range, to be sent as v0."""
    return ApiVersionsResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), api_keys=[_row(own)])


def _row(api: Api) -> ApiVersion:
    return ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)


def _is_software_known(request: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    )
