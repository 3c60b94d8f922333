"""The smallest state machine that tells two histories apart: a chain of checksums.

Owns: the fold over committed batches, and its snapshot as bytes. Must not know: Raft, disks.
"""

import zlib
from struct import Struct

from headrace.quorum.batches import Batch
from headrace.quorum.voters import VoterSet
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.messages.voters_record import VotersRecord

_STATE = Struct(">qII")


class DigestMachine:
    __slots__ = ("applied_offset", "digest", "voters")

    def __init__(self, voters: VoterSet) -> None:
        self.applied_offset = 0
        """Everything before it is folded in."""
        self.digest = 0
        self.voters = voters

    def replay(self, batch: Batch) -> None:
        assert batch.base_offset == self.applied_offset
        self.digest = zlib.crc32(batch.data, self.digest)
        self.applied_offset = batch.next_offset
        if batch.voters is not None:
            self.voters = batch.voters

    def to_snapshot(self) -> bytes:
        body = encode(self.voters.to_record(), 0)
        return _STATE.pack(self.applied_offset, self.digest, zlib.crc32(body)) + body

    @classmethod
    def from_snapshot(cls, content: bytes) -> "DigestMachine":
        offset, digest, checksum = _STATE.unpack_from(content)
        body = content[_STATE.size :]
        assert zlib.crc32(body) == checksum, "a snapshot arrives as it was sent"
        machine = cls(VoterSet.from_record(decode(VotersRecord, body, 0)[0]))
        machine.applied_offset, machine.digest = offset, digest
        return machine
