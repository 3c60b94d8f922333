"""UpdateFeatures: all or nothing, up and down, and only what everybody serves."""

from typing import Any

import pytest
from tests.unit.cluster.images import LEVELS, context_of, image_of, replayed

from headrace.cluster import features
from headrace.cluster.feature_updates import decide_update_features
from headrace.cluster.features import (
    decide_bootstrap,
    shown_levels,
    shown_ranges,
    unserved_level,
)
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata_records import (
    BrokerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from headrace.wire.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def update(
    image: ClusterImage, *updates: tuple[str, int, int], api_version: int = 1, **fields: Any
) -> tuple[list[Any], UpdateFeaturesResponse]:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        ],
        **fields,
    )
    return decide_update_features(image, request, context_of(api_version))


@pytest.fixture
def several_levels(monkeypatch: pytest.MonkeyPatch) -> ClusterImage:
    """A cluster that serves share.version 0 to 2 and has finalized 1."""
    monkeypatch.setitem(features.SUPPORTED, "share.version", (0, 2))
    image = ClusterImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=30))
    image.replay(FeatureLevelRecord(name="share.version", feature_level=1))
    return image


def test_a_new_cluster_gets_its_levels_once() -> None:
    image = ClusterImage()
    records, _ = decide_bootstrap(image)
    after = replayed(image, records)
    assert after.features == LEVELS
    assert decide_bootstrap(after) == ([], None)


def test_up_and_down(several_levels: ClusterImage) -> None:
    records, response = update(several_levels, ("share.version", 2, UPGRADE))
    assert response.error_code == 0
    assert [result.feature for result in response.results] == ["share.version"]
    up = replayed(several_levels, records)
    assert up.features["share.version"] == 2
    records, response = update(up, ("share.version", 0, SAFE))
    assert response.error_code == 0
    assert "share.version" not in replayed(up, records).features


def test_only_asking_writes_nothing(several_levels: ClusterImage) -> None:
    records, response = update(several_levels, ("share.version", 2, UPGRADE), validate_only=True)
    assert (records, response.error_code) == ([], 0)


def test_the_level_that_is_there_writes_nothing(several_levels: ClusterImage) -> None:
    assert update(several_levels, ("share.version", 1, UPGRADE))[0] == []


REFUSED = [
    (("share.version", 0, UPGRADE), "Can't downgrade the version"),
    (("share.version", 2, SAFE), "Can't downgrade to a newer version"),
    (("share.version", 2, 7), "does not support the given upgrade type"),
    (("share.version", -1, UPGRADE), "less than 0"),
    (("share.version", 3, UPGRADE), "only supports versions 0-2"),
    (("metadata.version", 31, UPGRADE), "only supports versions 30-30"),
    (("metadata.version", 29, UNSAFE), "only supports versions 30-30"),
    (("no.such", 1, UPGRADE), "does not support this feature"),
    (("kraft.version", 0, SAFE), "is 1 from its first entry on"),
    (("kraft.version", 2, UPGRADE), "is 1 from its first entry on"),
]


@pytest.mark.parametrize(("wanted", "words"), REFUSED)
def test_one_refusal_refuses_all(
    wanted: tuple[str, int, int], words: str, several_levels: ClusterImage
) -> None:
    good = ("transaction.version", 0, UPGRADE)
    records, response = update(several_levels, good, wanted)
    assert (records, response.error_code) == ([], ErrorCode.INVALID_UPDATE_VERSION)
    assert response.results == []
    assert words in (response.error_message or "")
    assert wanted[0] in (response.error_message or "")


def test_version_0_says_downgrade_in_its_own_way(several_levels: ClusterImage) -> None:
    for allow, error in ((True, 0), (False, ErrorCode.INVALID_UPDATE_VERSION)):
        wanted = FeatureUpdateKey(
            feature="share.version", max_version_level=0, allow_downgrade=allow
        )
        request = UpdateFeaturesRequest(feature_updates=[wanted])
        _, response = decide_update_features(several_levels, request, context_of(0))
        assert response.error_code == error


def test_a_feature_named_twice(several_levels: ClusterImage) -> None:
    twice = ("share.version", 2, UPGRADE)
    records, response = update(several_levels, twice, twice)
    assert (records, response.error_code) == ([], ErrorCode.INVALID_REQUEST)


@pytest.mark.parametrize("kind", ["Broker 7", "Controller 7"])
def test_everybody_who_is_registered_must_serve_it(kind: str, several_levels: ClusterImage) -> None:
    if kind.startswith("Broker"):
        low = BrokerFeature(name="share.version", min_supported_version=0, max_supported_version=1)
        several_levels.replay(RegisterBrokerRecord(broker_id=7, features=[low]))
    else:
        several_levels.replay(RegisterControllerRecord(controller_id=7))
    records, response = update(several_levels, ("share.version", 2, UPGRADE))
    assert (records, response.error_code) == ([], ErrorCode.INVALID_UPDATE_VERSION)
    assert kind in (response.error_message or "")


def test_a_node_that_does_not_name_a_finalized_feature_does_not_serve_it() -> None:
    image = image_of()
    assert unserved_level(image, (("metadata.version", 1, 30),)) is None
    assert "metadata.version" in (unserved_level(image, (("metadata.version", 31, 32),)) or "")
    assert "30" in (unserved_level(image, ()) or "")


def test_the_quorums_version_is_shown_once_there_is_a_cluster(
    several_levels: ClusterImage,
) -> None:
    assert shown_levels(ClusterImage()) == {}
    assert shown_levels(several_levels)["kraft.version"] == 1
    assert shown_ranges()["kraft.version"] == (1, 1)
    records, response = update(several_levels, ("kraft.version", 1, UPGRADE))
    assert (records, response.error_code) == ([], 0)
