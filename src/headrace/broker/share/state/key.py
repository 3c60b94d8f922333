"""Where a share-partition's state lives: its coordinator key.

Owns: the key's text, `group:topicId:partition`, both ways. Must not know: partitions, brokers.
Spec: Kafka's SharePartitionKey; the id is in base64url, as everywhere. A group id may hold colons,
so the key is read from its end.
"""

from headrace.base.ids import uuid_bytes, uuid_text
from headrace.broker.share.persister import SharePartitionKey


def coordinator_key(key: SharePartitionKey) -> str:
    return f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"


def read_coordinator_key(text: str) -> SharePartitionKey:
    """The reverse; ValueError with the reason if it is none."""
    parts = text.rsplit(":", 2)
    if len(parts) != 3:
        raise ValueError(
            f"Invalid key format: expected - groupId:topicId:partition, found - {text}"
        )
    group_id, topic, index = parts
    if not group_id.strip():
        raise ValueError("GroupId must be alphanumeric string")
    try:
        topic_id = uuid_bytes(topic)
    except ValueError as error:
        raise ValueError(f"Invalid topic ID: {topic}") from error
    if not (index.isascii() and index.isdigit()):
        raise ValueError(f"Invalid partition: {index}")
    return SharePartitionKey(group_id, topic_id, int(index))
