"""Deciding on feature levels: UpdateFeatures.

Owns: UpdateFeatures (57), versions 0–2: 1 kinds of upgrade, only asking · 2 no results (KIP-1022).
Pure. Spec: KIP-584, KIP-778; Kafka's FeatureControlManager for codes and words.

All of the updates are made, or none.
"""

from collections.abc import Iterable

from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.features import KRAFT_VERSION, KRAFT_VERSION_LEVEL, SUPPORTED
from headrace.cluster.image import ClusterImage
from headrace.cluster.registrations import Features
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.metadata_records import FeatureLevelRecord
from headrace.wire.kafka.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3


def decide_update_features(
    image: ClusterImage, request: UpdateFeaturesRequest, context: DecisionContext
) -> tuple[Records, UpdateFeaturesResponse]:
    records: Records = []
    refusal = _duplicates(request.feature_updates)
    for update in request.feature_updates:
        refusal = refusal or _update_refusal(image, update, context.api_version)
        if _level(image, update.feature) != update.max_version_level:
            records.append(
                FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
            )
    if refusal is not None:
        return [], UpdateFeaturesResponse(
            error_code=refusal.error,
            error_message="The update failed for all features since the following feature had "
            f"an error: {refusal.message}",
        )
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]
    if request.validate_only:
        records = []
    return records, UpdateFeaturesResponse(error_message=None, results=results)


def _duplicates(updates: Iterable[FeatureUpdateKey]) -> Refusal | None:
    names = [update.feature for update in updates]
    if len(set(names)) == len(names):
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, "A feature is named twice.")


def _update_refusal(
    image: ClusterImage, update: FeatureUpdateKey, api_version: int
) -> Refusal | None:
    reason = _reason_against(image, update, api_version)
    if reason is None:
        return None
    return Refusal(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {reason}",
    )


def _reason_against(image: ClusterImage, update: FeatureUpdateKey, api_version: int) -> str | None:
    name, level = update.feature, update.max_version_level
    upgrade_type = update.upgrade_type
    if api_version == 0:
        upgrade_type = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    if upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if name == KRAFT_VERSION and level != KRAFT_VERSION_LEVEL:
        return f"The quorum's version is {KRAFT_VERSION_LEVEL} from its first entry on."
    current = _level(image, name)
    if upgrade_type == _UPGRADE and level < current:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if upgrade_type != _UPGRADE and level > current:
        return "Can't downgrade to a newer version."
    return None if name == KRAFT_VERSION else _not_served(image, name, level)


def _level(image: ClusterImage, name: str) -> int:
    return KRAFT_VERSION_LEVEL if name == KRAFT_VERSION else image.features.get(name, 0)


def _not_served(image: ClusterImage, name: str, level: int) -> str | None:
    """Everybody who is registered must serve a level before it is finalized."""
    nodes: list[tuple[str, dict[str, tuple[int, int]]]] = [("The controller", SUPPORTED)]
    for broker in image.brokers.values():
        nodes.append((f"Broker {broker.broker_id}", _ranges(broker.features)))
    for controller in image.controllers.values():
        nodes.append((f"Controller {controller.controller_id}", _ranges(controller.features)))
    for node, ranges in nodes:
        if name not in ranges:
            return f"{node} does not support this feature."
        low, high = ranges[name]
        if not low <= level <= high:
            return f"{node} only supports versions {low}-{high}."
    return None


def _ranges(features: Features) -> dict[str, tuple[int, int]]:
    return {name: (low, high) for name, low, high in features}
