"""Which broker of a cluster coordinates a group or a transactional id."""

import time

from headrace.client.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.testing.local_cluster import LocalCluster
from headrace.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

GROUP, TRANSACTION = 0, 1
DEADLINE_S = 60.0


def coordinator_name(cluster: LocalCluster, key: str, key_type: int, *, but: str = "") -> str:
    """The broker's name; waits while there is none, or while it is still the one in `but`."""
    deadline_s = time.monotonic() + DEADLINE_S
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    while time.monotonic() < deadline_s:
        try:
            with Cluster(cluster.bootstrap_servers, retry_timeout_ms=5_000) as client:
                (found,) = client.call(request, FindCoordinatorResponse).coordinators
        except ClientError:
            continue
        if found.error_code == 0 and (name := cluster.name_of(found.node_id)) != but:
            return name
        time.sleep(0.05)
    raise AssertionError(f"nobody coordinates {key}")
