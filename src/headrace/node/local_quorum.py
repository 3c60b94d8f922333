"""The quorum of a local cluster: formed once, found again, grown.

Owns: which controllers are formatted as the first voters, and what every node is told of them.
Must not know: processes.

The first `up` formats all controllers with the same list of voters (`formatting`). A directory
that has a quorum already keeps it: controllers that are new join it as observers and ask to vote.
"""

import contextlib
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import HeadraceError, StorageError, UsageError
from headrace.base.ids import uuid_bytes
from headrace.log import checkpoints
from headrace.node.configuration import CONTROLLER_LISTENER, data_settings
from headrace.node.formatting import NO_VOTERS, format_node, new_id_text
from headrace.node.local_files import Layout
from headrace.node.local_plan import NodePlan
from headrace.node.local_ports import HOST
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.runtime.disk import DiskStorage


@dataclass(frozen=True, slots=True)
class LocalQuorum:
    cluster_id: str
    bootstrap_servers: str
    joining: frozenset[str]
    """Names of controllers that did not form the quorum."""

    def settings_of(self, plan: NodePlan) -> dict[str, str]:
        """What the node is told beside its addresses."""
        settings = {
            "process.roles": plan.role,
            "cluster.id": self.cluster_id,
            "controller.quorum.bootstrap.servers": self.bootstrap_servers,
        }
        if plan.name in self.joining:
            settings["controller.quorum.auto.join.enable"] = "true"
        return settings


def form_quorum(
    layout: Layout, plans: Sequence[NodePlan], settings: Mapping[str, str]
) -> LocalQuorum:
    """Format what is new; the quorum as every node is to be told of it."""
    storage = DiskStorage()
    source = random.SystemRandom()
    controllers = [plan for plan in plans if plan.is_controller]
    servers = ",".join(plan.controller_listen for plan in controllers)
    found = {}
    for plan in plans:
        with _told_of(plan):
            found[plan.name] = _cluster_id_of(storage, layout, plan, settings)
    known = next(filter(None, found.values()), None)
    cluster_id = known or settings.get("cluster.id") or new_id_text(source)
    is_new = all(found[plan.name] is None for plan in controllers)
    if is_new and known is not None:
        raise UsageError(
            f"{layout.directory} holds a cluster whose controllers are not among "
            f"{', '.join(plan.name for plan in controllers)}: start it with the --brokers and "
            "--controllers that it was made with, or take another directory"
        )
    voters = _new_voters(controllers, source) if is_new else NO_VOTERS
    quorum = LocalQuorum(
        cluster_id,
        servers,
        frozenset(p.name for p in controllers if not is_new and found[p.name] is None),
    )
    for plan in plans:
        if found[plan.name] is None:
            with _told_of(plan):
                format_node(
                    storage,
                    _config(layout, plan, {**quorum.settings_of(plan), **settings}),
                    source,
                    time.time_ns() // 1_000_000,
                    cluster_id=cluster_id,
                    voters=voters,
                )
    return quorum


@contextlib.contextmanager
def _told_of(plan: NodePlan) -> Iterator[None]:
    """A disk that refuses is told with the name of the node."""
    try:
        yield
    except StorageError as error:
        raise HeadraceError(f"{plan.name} can't be formatted: {error}") from error


def _new_voters(controllers: list[NodePlan], source: random.Random) -> VoterSet:
    return VoterSet(
        Voter(
            ReplicaKey(plan.node_id, uuid_bytes(new_id_text(source))),
            (Endpoint(CONTROLLER_LISTENER, HOST, plan.controller_port),),
        )
        for plan in controllers
    )


def _config(layout: Layout, plan: NodePlan, settings: Mapping[str, str]) -> BrokerConfig:
    listeners = []
    if plan.is_broker:
        listeners.append(f"PLAINTEXT://{plan.listen}")
    if plan.is_controller:
        listeners.append(f"{CONTROLLER_LISTENER}://{plan.controller_listen}")
    data = data_settings(str(layout.data_of(plan.name)))
    flags = {"listeners": ",".join(listeners), "node.id": str(plan.node_id), **data, **settings}
    return BrokerConfig.of(flags)


def _cluster_id_of(
    storage: DiskStorage, layout: Layout, plan: NodePlan, settings: Mapping[str, str]
) -> str | None:
    """None where the node has never been."""
    placeholder = {
        "process.roles": plan.role,
        "controller.quorum.bootstrap.servers": f"{HOST}:1",
        **settings,
    }
    directory = _config(layout, plan, placeholder).metadata_log_dir
    path = f"{directory}/{checkpoints.META_PROPERTIES}"
    properties = checkpoints.read_meta_properties(storage, path)
    return None if properties is None else properties.get("cluster.id")
