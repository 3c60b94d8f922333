"""The first formatting of a local cluster's log nodes, all with the same list of voters.

Owns: nothing but the way from plans to `formatting`. Must not know: processes.
"""

import random
import time
from collections.abc import Sequence

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import HeadraceError, StorageError
from headrace.base.ids import uuid_bytes
from headrace.node.configuration import CONTROLLER_LISTENER
from headrace.node.formatting import format_node, new_id_text
from headrace.node.local_plan import NodePlan
from headrace.node.local_ports import HOST
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.runtime.disk import DiskStorage


def new_cluster_id() -> str:
    return new_id_text(random.SystemRandom())


def format_nodes(
    nodes: Sequence[tuple[str, BrokerConfig]], cluster_id: str, first_voters: Sequence[NodePlan]
) -> None:
    """Nodes by name; without first voters they join a quorum that is there."""
    storage = DiskStorage()
    source = random.SystemRandom()
    voters = VoterSet(
        Voter(
            ReplicaKey(plan.node_id, uuid_bytes(new_id_text(source))),
            (Endpoint(CONTROLLER_LISTENER, HOST, plan.controller_port),),
        )
        for plan in first_voters
    )
    for name, config in nodes:
        try:
            format_node(
                storage,
                config,
                source,
                time.time_ns() // 1_000_000,
                cluster_id=cluster_id,
                voters=voters,
            )
        except StorageError as error:
            raise HeadraceError(f"{name} can't be formatted: {error}") from error
