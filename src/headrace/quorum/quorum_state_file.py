"""`quorum-state`: the election state of one replica, in Kafka's own file.

    {"leaderId":1,"leaderEpoch":7,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",
     "data_version":1}

Owns: the form of the file. Must not know: when it is written (always durably, before anything that
depends on it leaves). Spec: Kafka's FileQuorumStateStore; version 0 names no directory.
"""

import json

from headrace.base.errors import CorruptionError
from headrace.base.ids import uuid_bytes, uuid_text
from headrace.base.storage import Storage
from headrace.quorum.election_state import QUORUM_STATE_VERSION, ElectionState
from headrace.wire.kafka.message import ZERO_UUID
from headrace.wire.kafka.messages.quorum_state_data import QuorumStateData

QUORUM_STATE = "quorum-state"


def encode_quorum_state(state: ElectionState) -> bytes:
    message = state.to_message()
    fields = {
        "leaderId": message.leader_id,
        "leaderEpoch": message.leader_epoch,
        "votedId": message.voted_id,
        "votedDirectoryId": uuid_text(message.voted_directory_id),
        "data_version": QUORUM_STATE_VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def read_quorum_state(storage: Storage, folder: str) -> ElectionState | None:
    """None if there is no such file: a new disk, or one from before there were elections."""
    path = f"{folder}/{QUORUM_STATE}"
    if not storage.exists(path):
        return None
    try:
        fields = json.loads(storage.read_file(path))
        version = int(fields["data_version"])
        if not 0 <= version <= QUORUM_STATE_VERSION:
            raise ValueError(f"version {version}")
        directory_id = fields.get("votedDirectoryId")
        message = QuorumStateData(
            leader_id=int(fields["leaderId"]),
            leader_epoch=int(fields["leaderEpoch"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=uuid_bytes(directory_id) if directory_id else ZERO_UUID,
        )
    except (ValueError, KeyError, TypeError) as error:
        # Whoever goes on without it may vote twice in one epoch.
        raise CorruptionError(path, 0, f"not a quorum state: {error}") from error
    return ElectionState.from_message(message)
