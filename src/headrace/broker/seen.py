"""Whether what a controller has granted is in this broker's image yet.

Owns: the question, for requests whose outcome clients look for at the broker that answered them.
Must not know: who waits, or for how long.

A controller elsewhere answers when its decision is committed; the records are then on their way to
this broker. A client that is told of its topic should find it here.
"""

from collections.abc import Callable
from typing import Any

from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode

IsSeen = Callable[[ClusterImage], bool]

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS, ALTER_QUOTAS = 19, 20, 37, 49


def when_seen(request: Any, response: Any) -> IsSeen | None:
    """True of an image that has it all; None where nobody looks for it."""
    match request.API_KEY:
        case value if value == CREATE_TOPICS and not request.validate_only:
            made = [
                topic.name
                for topic in response.topics
                if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
            ]
            return lambda image: all(name in image.topics_by_name for name in made)
        case value if value == DELETE_TOPICS:
            gone = [bytes(t.topic_id) for t in response.responses if not t.error_code]
            return lambda image: not any(topic_id in image.topics_by_id for topic_id in gone)
        case value if value == CREATE_PARTITIONS and not request.validate_only:
            granted = {r.name for r in response.results if not r.error_code}
            counts = {t.name: t.count for t in request.topics if t.name in granted}
            return lambda image: all(
                name not in image.topics_by_name
                or len(image.topics_by_name[name].partitions) >= count
                for name, count in counts.items()
            )
        case value if value == ALTER_QUOTAS and not request.validate_only:
            return _quotas_seen(request, response)
    return None


def _quotas_seen(request: Any, response: Any) -> IsSeen:
    wanted = [
        (frozenset((part.entity_type, part.entity_name) for part in entry.entity), op)
        for entry, answer in zip(request.entries, response.entries, strict=True)
        if not answer.error_code
        for op in entry.ops
    ]
    return lambda image: all(
        image.quotas.get(entity, {}).get(op.key) == (None if op.remove else op.value)
        for entity, op in wanted
    )
