"""Requests between nodes, and from clients, over the seeded network.

Owns: time-outs, refusals, and that every request ends exactly once. Must not know: what is asked.

Requests to brokers go as bytes through the sessions that sockets have; those to the quorum as
messages (its own simulation sends them as bytes too).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.quorum.peers import OnAnswer
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.served import response_class_of

if TYPE_CHECKING:
    from headrace.testing.cluster_simulation.node import NodeTimers, SimulatedNode
    from headrace.testing.cluster_simulation.world import World

FIRST_BOOTSTRAP_ID = -2


class SimulatedPeers:
    """`quorum.peers.Peers` of one life of a node."""

    def __init__(
        self, node: "SimulatedNode", timers: "NodeTimers", lane: str, timeout_ms: int
    ) -> None:
        self._node = node
        self._life = node.life
        self._timers = timers
        self._lane = lane
        self._timeout_ms = timeout_ms

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        node, world = self._node, self._node.world
        if target_id <= FIRST_BOOTSTRAP_ID:
            target_id = world.voters[FIRST_BOOTSTRAP_ID - target_id]
        is_open = True

        def end(response: Message | None, refused: bool) -> None:
            nonlocal is_open
            if is_open:
                is_open = False
                timer.cancel()
                on_answer(response, refused)

        timer = self._timers.call_later(self._timeout_ms, lambda: end(None, False))

        def back(response: Message | None) -> None:
            node.act(self._life, end, response, False)

        target = world.nodes[target_id]
        if not target.is_up and world.network.is_refused(node.node_id, target_id):
            self._timers.call_later(1, lambda: end(None, True))
        elif self._lane == "quorum":
            carry_message(world, node.node_id, target, request, back)
        else:
            carry_frame(world, node.node_id, target, request, request.VERSIONS[1], back)


def carry_message(
    world: "World",
    source: int,
    target: "SimulatedNode",
    request: Message,
    back: Callable[[Message | None], None],
) -> None:
    def answer(response: Message | None) -> None:
        world.network.send(target.node_id, source, back, response)

    def arrive() -> None:
        if target.is_up:
            target.act(target.life, target.ask_quorum, request, answer)

    world.network.send(source, target.node_id, arrive)


def carry_frame(
    world: "World",
    source: int,
    target: "SimulatedNode",
    request: Message,
    version: int,
    back: Callable[[Any], None],
) -> None:
    """A request in bytes; `back` gets the response, or None for a connection that ended."""
    frame = encode_request(request, version, 1, f"simulated-{source}")
    response_class = response_class_of(type(request))

    def answer(data: bytes | None) -> None:
        response = None
        if data is not None:
            response = decode_response(response_class, data, version)[1]
            world.truth.on_answer(target.node_id, request, response)
        world.network.send(target.node_id, source, back, response)

    def arrive() -> None:
        if target.is_up:
            target.act(target.life, target.ask_broker, frame, answer)

    world.network.send(source, target.node_id, arrive)
