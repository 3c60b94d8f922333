"""The brokers as a client of one listener may reach them.

Owns: the rule that a client is only ever told addresses of the listener it came through.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


class ReachableBroker(NamedTuple):
    broker_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def reachable_brokers(
    broker: "Broker", listener_name: str, *, with_fenced: bool = False
) -> list[ReachableBroker]:
    """In order of id; this broker by what it listens on now, others by what they registered."""
    host, port = broker.advertised(listener_name)
    found = [ReachableBroker(broker.node_id, host, port, broker.config["broker.rack"], False)]
    for other in broker.image.brokers.values():
        if other.broker_id == broker.node_id or (other.fenced and not with_fenced):
            continue
        for endpoint in other.endpoints:
            if endpoint.listener_name == listener_name:
                found.append(
                    ReachableBroker(
                        other.broker_id, endpoint.host, endpoint.port, other.rack, other.fenced
                    )
                )
                break
    return sorted(found)
