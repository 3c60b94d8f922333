"""The table of what a controller's listener serves. ApiVersions and the session read it.

Owns: `CONTROLLER_APIS`, who answers each of them, and what may come in an Envelope.
Must not know: connections. Spec: the APIs that Kafka's schemas give the listener `controller`;
versions are all that Kafka 4.3 has.
"""

from enum import Enum

from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.served import Api


class Answerer(Enum):
    """Who answers a request of the controller's listener."""

    LISTENER = "the listener itself, from what any controller knows"
    REPLICA = "the quorum's replica"
    CONTROLLER = "the active controller alone"


_ANSWERERS: dict[int, Answerer] = {
    **dict.fromkeys((17, 18, 32, 36, 58, 60), Answerer.LISTENER),
    **dict.fromkeys((1, 52, 53, 54, 55, 59, 80, 81, 82), Answerer.REPLICA),
    **dict.fromkeys(
        (19, 20, 33, 37, 43, 44, 45, 46, 49, 56, 57, 62, 63, 64, 67, 70, 73), Answerer.CONTROLLER
    ),
}


def _row(key: int) -> Api:
    known = API_KEYS[key]
    return Api(key, known.name, known.min_version, known.max_version)


CONTROLLER_APIS: tuple[Api, ...] = tuple(_row(key) for key in sorted(_ANSWERERS))

BY_KEY: dict[int, Api] = {api.key: api for api in CONTROLLER_APIS}

FORWARDABLE = frozenset((19, 20, 33, 37, 43, 44, 45, 46, 49, 55, 57, 64, 80, 81))
"""What a broker passes on for a client, in an Envelope."""


def answerer_of(key: int) -> Answerer:
    return _ANSWERERS[key]
