"""The quorum of a local cluster: found again, or formed once, or grown.

Owns: what every node is told of the quorum. Must not know: processes, how a directory is formatted
(`local_formatting`, imported only when there is something to format: a start is measured).

A node that is alone formats itself, as any node does on an empty directory. The first `up` of
several formats all controllers with the same list of voters. A directory that has a quorum already
keeps it: controllers that are new join it as observers and ask to vote.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.base.broker_config import BrokerConfig
from headrace.base.config_sources import read_properties
from headrace.base.errors import HeadraceError, UsageError
from headrace.node.configuration import CONTROLLER_LISTENER, data_settings
from headrace.node.local_files import Layout
from headrace.node.local_plan import NodePlan
from headrace.node.local_ports import HOST

META_PROPERTIES = "meta.properties"


@dataclass(frozen=True, slots=True)
class LocalQuorum:
    cluster_id: str | None
    """None while the only node has still to make it up."""
    bootstrap_servers: str
    joining: frozenset[str]
    """Names of controllers that did not form the quorum."""

    def settings_of(self, plan: NodePlan) -> dict[str, str]:
        """What the node is told beside its addresses."""
        settings = {
            "process.roles": plan.role,
            "controller.quorum.bootstrap.servers": self.bootstrap_servers,
        }
        if self.cluster_id is not None:
            settings["cluster.id"] = self.cluster_id
        if plan.name in self.joining:
            settings["controller.quorum.auto.join.enable"] = "true"
        return settings


def form_quorum(
    layout: Layout, plans: Sequence[NodePlan], settings: Mapping[str, str]
) -> LocalQuorum:
    """Format what is new; the quorum as every node is to be told of it."""
    controllers = [plan for plan in plans if plan.is_controller]
    servers = ",".join(plan.controller_listen for plan in controllers)
    found = {plan.name: _cluster_id_of(layout, plan, settings) for plan in plans}
    known = next(filter(None, found.values()), None)
    is_new = all(found[plan.name] is None for plan in controllers)
    if is_new and known is not None:
        raise UsageError(
            f"{layout.directory} holds a cluster whose controllers are not among "
            f"{', '.join(plan.name for plan in controllers)}: start it with the --brokers and "
            "--controllers that it was made with, or take another directory"
        )
    joining = frozenset(p.name for p in controllers if not is_new and found[p.name] is None)
    unformatted = [plan for plan in plans if found[plan.name] is None]
    if not unformatted or len(plans) == 1:
        return LocalQuorum(known, servers, joining)
    from headrace.node.local_formatting import format_nodes, new_cluster_id

    cluster_id = known or settings.get("cluster.id") or new_cluster_id()
    quorum = LocalQuorum(cluster_id, servers, joining)
    format_nodes(
        [
            (plan.name, node_config(layout, plan, {**quorum.settings_of(plan), **settings}))
            for plan in unformatted
        ],
        cluster_id,
        controllers if is_new else [],
    )
    return quorum


def node_config(layout: Layout, plan: NodePlan, settings: Mapping[str, str]) -> BrokerConfig:
    listeners = []
    if plan.is_broker:
        listeners.append(f"PLAINTEXT://{plan.listen}")
    if plan.is_controller:
        listeners.append(f"{CONTROLLER_LISTENER}://{plan.controller_listen}")
    data = data_settings(str(layout.data_of(plan.name)))
    flags = {"listeners": ",".join(listeners), "node.id": str(plan.node_id), **data, **settings}
    return BrokerConfig.of(flags)


def _cluster_id_of(layout: Layout, plan: NodePlan, settings: Mapping[str, str]) -> str | None:
    """None where the node has never been."""
    placeholder = {
        "process.roles": plan.role,
        "controller.quorum.bootstrap.servers": f"{HOST}:1",
        **settings,
    }
    directory = node_config(layout, plan, placeholder).metadata_log_dir
    assert directory is not None
    try:
        text = (Path(directory) / META_PROPERTIES).read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise HeadraceError(f"{plan.name} can't be formatted: {error}") from error
    return read_properties(text).get("cluster.id")
