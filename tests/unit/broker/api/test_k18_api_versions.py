"""ApiVersions: what is advertised, and to whom."""

import pytest
from tests.unit.broker.api.admin_broker import AdminBroker, versions_of

from headrace.broker.api.k18_api_versions import unsupported_version_response
from headrace.broker.api.registry import APIS
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

VERSIONS = versions_of(ApiVersionsRequest)


def asked_by(name: str = "headrace", version: str = "0.1.0") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_registry_is_what_is_advertised(version: int) -> None:
    response = AdminBroker().call(asked_by(), version)
    assert response.error_code == 0
    assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [
        (api.key, api.min_version, api.max_version) for api in APIS if api.key not in (71, 72)
    ]


def test_produce_is_advertised_from_zero() -> None:
    (produce,) = (key for key in AdminBroker().call(asked_by(), 3).api_keys if key.api_key == 0)
    assert (produce.min_version, produce.max_version) == (0, 13)


def test_features_are_only_what_is_served() -> None:
    broker = AdminBroker()
    for version in (3, 4):
        response = broker.call(asked_by(), version)
        finalized = [
            (feature.name, feature.min_version_level, feature.max_version_level)
            for feature in response.finalized_features
        ]
        assert finalized == [
            ("metadata.version", 30, 30),
            ("transaction.version", 2, 2),
            ("group.version", 1, 1),
            ("share.version", 1, 1),
            ("eligible.leader.replicas.version", 1, 1),
            ("kraft.version", 1, 1),
        ]
        assert response.finalized_features_epoch == broker.image.last_offset
    supported = {f.name: (f.min_version, f.max_version) for f in response.supported_features}
    assert supported == {
        "metadata.version": (30, 30),
        "transaction.version": (0, 2),
        "group.version": (0, 1),
        "share.version": (0, 1),
        "eligible.leader.replicas.version": (0, 1),
        "kraft.version": (1, 1),
    }


def test_version_3_never_sees_a_lowest_level_of_0() -> None:
    features = AdminBroker().call(asked_by(), 3).supported_features
    assert [feature.name for feature in features] == ["metadata.version", "kraft.version"]


@pytest.mark.parametrize("name", ["a b!", "", "-a", "a-", "ä", "a\n"])
def test_software_must_have_a_proper_name(name: str) -> None:
    broker = AdminBroker()
    assert broker.call(asked_by(name), 3).error_code == ErrorCode.INVALID_REQUEST
    assert broker.call(asked_by("ok", name), 4).error_code == ErrorCode.INVALID_REQUEST
    assert broker.call(asked_by(name), 2).error_code == 0


@pytest.mark.parametrize("name", ["a", "apache-kafka-java", "librdkafka", "v2.1.0-rc.1"])
def test_proper_names(name: str) -> None:
    assert AdminBroker().call(asked_by(name, name), 3).error_code == 0


def test_an_unknown_version_is_told_the_known_ones_in_version_0() -> None:
    data = encode(unsupported_version_response(), 0)
    response, _ = decode(ApiVersionsResponse, data, 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(k.api_key, k.min_version, k.max_version) for k in response.api_keys] == [(18, 0, 4)]
