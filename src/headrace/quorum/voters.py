"""Who may vote: sets of voters, and which of them held from which offset on.

Owns: the voter set as a value, its form as a VotersRecord, and the history of sets in the log.
Must not know: how a change is agreed on (`voter_changes`).
Spec: KIP-853. The newest set in the log holds at once, committed or not; a truncation takes it
back.

Invariants: a set holds an id once; the history's offsets rise; there is always a set to fall
back to, the one of the snapshot that the log begins with.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.quorum.election_state import ReplicaKey
from headrace.wire.kafka.messages import voters_record

KRAFT_VERSION_MAX = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()


class VoterSet:
    """Immutable; the order is that of the ids."""

    __slots__ = ("_voters", "keys", "majority_count")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        ordered = sorted(voters, key=lambda voter: voter.key.id)
        assert len({voter.key.id for voter in ordered}) == len(ordered), "an id votes once"
        self._voters = {voter.key: voter for voter in ordered}
        self.keys = tuple(self._voters)
        self.majority_count = len(ordered) // 2 + 1

    @classmethod
    def of(cls, *keys: ReplicaKey) -> "VoterSet":
        return cls(Voter(key) for key in keys)

    def __contains__(self, key: ReplicaKey) -> bool:
        return key in self._voters

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"VoterSet({list(self.keys)})"

    def with_id(self, node_id: int) -> Voter | None:
        return next((voter for voter in self if voter.key.id == node_id), None)

    def with_voter(self, voter: Voter) -> "VoterSet":
        """Adds it, or puts it in the place of the one with the same key."""
        return VoterSet([*(v for v in self if v.key != voter.key), voter])

    def without(self, key: ReplicaKey) -> "VoterSet":
        return VoterSet(voter for voter in self if voter.key != key)

    def to_record(self) -> voters_record.VotersRecord:
        return voters_record.VotersRecord(voters=[_to_record(voter) for voter in self])

    @classmethod
    def from_record(cls, record: voters_record.VotersRecord) -> "VoterSet":
        return cls(_from_record(voter) for voter in record.voters)


def _to_record(voter: Voter) -> voters_record.Voter:
    return voters_record.Voter(
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        endpoints=[
            voters_record.Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
        ],
        kraft_version_feature=voters_record.KraftVersionFeature(
            max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def _from_record(voter: voters_record.Voter) -> Voter:
    endpoints = tuple(Endpoint(e.name, e.host, e.port) for e in voter.endpoints)
    return Voter(ReplicaKey(voter.voter_id, voter.voter_directory_id), endpoints)


class VoterHistory:
    """The voter sets of a log, by the offset of the record that brought each."""

    __slots__ = ("_base", "_offsets", "_sets", "latest")

    def __init__(self, base: VoterSet) -> None:
        self._base = base
        self._offsets: list[int] = []
        self._sets: list[VoterSet] = []
        self.latest = base
        """The set that holds now, committed or not."""

    @property
    def latest_offset(self) -> int:
        """The offset of the newest voters record, -1 if the log holds none."""
        return self._offsets[-1] if self._offsets else -1

    def add(self, offset: int, voters: VoterSet) -> None:
        assert offset > self.latest_offset
        self._offsets.append(offset)
        self._sets.append(voters)
        self.latest = voters

    def at(self, end_offset: int) -> VoterSet:
        """The set that the records before `end_offset` make; what a snapshot there holds."""
        slot = bisect_left(self._offsets, end_offset)
        return self._sets[slot - 1] if slot else self._base

    def truncate_to(self, end_offset: int) -> None:
        slot = bisect_left(self._offsets, end_offset)
        del self._offsets[slot:]
        del self._sets[slot:]
        self.latest = self._sets[-1] if self._sets else self._base

    def start_at(self, start_offset: int) -> None:
        """Forgets records before `start_offset`; the last of them is what to fall back to."""
        self._base = self.at(start_offset)
        slot = bisect_left(self._offsets, start_offset)
        del self._offsets[:slot]
        del self._sets[:slot]

    def reset(self, base: VoterSet) -> None:
        self._base = self.latest = base
        self._offsets.clear()
        self._sets.clear()
