"""What a log is about, as its host sees it: records, a state that they make, and snapshots.

Owns: these types. Must not know: any one state machine.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, TypeVar

from headrace.base.errors import HeadraceError


class State(Protocol):
    """A state machine. `last_offset` is set by the host: the offset of the last record seen."""

    last_offset: int

    def replay(self, record: Any) -> None:
        """The only way to change it. Raising here stops the node."""
        ...

    def copy(self) -> Any:
        """Another state, equal now and independent from now on; cheap, or the loop is held."""
        ...

    def to_records(self) -> Iterator[Any]:
        """Records that, replayed into an empty state, give an equal one: its snapshot."""
        ...


S = TypeVar("S", bound=State)


class RecordCodec(NamedTuple):
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


class HostOverloaded(HeadraceError):
    """More decisions wait than the host keeps, or one decision is too large. Nothing was done."""


class NotLeader(HeadraceError):
    """This node does not decide. If it led when it was asked, the outcome is open: another leader
    may find the records in its log, or not."""

    def __init__(self, leader_id: int, epoch: int) -> None:
        super().__init__(f"node {leader_id} leads epoch {epoch}")
        self.leader_id = leader_id
        self.epoch = epoch
