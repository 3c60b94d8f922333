"""The cluster's features: what is supported, and the levels of a new cluster.

Owns: `SUPPORTED`, the bootstrap records, and who can't be part of the cluster. Pure.
Spec: KIP-584, KIP-1022. A level of 0 is "not there": it is never finalized nor listed.

Only what is served is supported. The metadata version is that of the records we write (4.3-IV0).
`kraft.version` is the quorum's: no record of the metadata tells of it. Every quorum of ours begins
with voters in its log (KIP-853), which is level 1: it is shown as finalized and can't be changed.
"""

from headrace.cluster.decision import Records
from headrace.cluster.image import ClusterImage
from headrace.cluster.registrations import Features
from headrace.quorum.voters import KRAFT_VERSION_MAX
from headrace.wire.kafka.messages.metadata_records import FeatureLevelRecord

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
KRAFT_VERSION_LEVEL = KRAFT_VERSION_MAX
TRANSACTION_VERSION = "transaction.version"
GROUP_VERSION = "group.version"
SHARE_VERSION = "share.version"
ELIGIBLE_LEADER_REPLICAS_VERSION = "eligible.leader.replicas.version"

SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (30, 30),
    TRANSACTION_VERSION: (0, 2),
    GROUP_VERSION: (0, 1),
    SHARE_VERSION: (0, 1),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
}
"""Feature name: lowest and highest level that this version serves."""


def shown_ranges() -> dict[str, tuple[int, int]]:
    """What ApiVersions shows as supported."""
    return {**SUPPORTED, KRAFT_VERSION: (KRAFT_VERSION_LEVEL, KRAFT_VERSION_LEVEL)}


def shown_levels(image: ClusterImage) -> dict[str, int]:
    """What ApiVersions shows as finalized; nothing before the cluster's first records."""
    if not image.features:
        return {}
    return {**image.features, KRAFT_VERSION: KRAFT_VERSION_LEVEL}


def decide_bootstrap(image: ClusterImage) -> tuple[Records, None]:
    """The first records of a new cluster; nothing where they are there already."""
    records: Records = [
        FeatureLevelRecord(name=name, feature_level=high)
        for name, (_low, high) in SUPPORTED.items()
        if high > 0 and name not in image.features
    ]
    return records, None


def unserved_level(image: ClusterImage, ranges: Features) -> str | None:
    """Why a node that serves these ranges can't be part of the cluster; or None."""
    served = {name: (low, high) for name, low, high in ranges}
    for name, level in image.features.items():
        low, high = served.get(name, (0, 0))
        if not low <= level <= high:
            return f"{name} is finalized at {level}, and the node serves {low} to {high}"
    return None
