"""A consumer whose partitions come from a group, and which commits what was taken.

Owns: the joint of membership (`group`), positions (`consumer`) and commits (`offsets`).
A record is committed once the caller asked for the next poll or closed: at least once.
"""

import time
from collections.abc import Iterator, Sequence

from headrace.client.cluster import Cluster
from headrace.client.consumer import ConsumedRecord, Consumer, TopicPartition
from headrace.client.errors import ServerError
from headrace.client.fetch import READ_UNCOMMITTED
from headrace.client.group import GroupMember
from headrace.client.offsets import EARLIEST_TIMESTAMP, commit, committed, list_offsets

COMMIT_INTERVAL_S = 1.0
CLOSE_TIMEOUT_MS = 3_000


class GroupConsumer:
    """`reset` says where to begin in partitions for which the group has committed nothing."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        topics: Sequence[str],
        *,
        reset: int = EARLIEST_TIMESTAMP,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        self.cluster = cluster
        self.member = GroupMember(cluster, group_id, topics)
        self._consumer = Consumer(cluster, {}, reset=reset, isolation_level=isolation_level)
        self._reset = reset
        self._committed: dict[TopicPartition, int] = {}
        self._next_commit_s = 0.0

    @property
    def assigned(self) -> list[TopicPartition]:
        return sorted(self._consumer.positions)

    def poll(self, max_wait_ms: int) -> Iterator[ConsumedRecord]:
        """Joins if needed, keeps the session alive, commits from time to time, then fetches."""
        if not self.member.maybe_heartbeat():
            self._join()
        if time.monotonic() >= self._next_commit_s:
            self.commit()
        if not self._consumer.positions:
            # Another member has every partition: wait for a rebalance to give us some.
            time.sleep(max_wait_ms / 1000)
            return
        for record in self._consumer.poll(max_wait_ms):
            yield record
            if not self.member.maybe_heartbeat():
                return

    def at_end(self, ends: dict[TopicPartition, int]) -> bool:
        """Of the partitions that are ours; before the first poll none are, and it is not."""
        mine = {where: end for where, end in ends.items() if where in self._consumer.positions}
        return not self.member.must_rejoin and self._consumer.at_end(mine)

    def commit(self) -> None:
        """Commit all positions that moved. A member that was thrown out commits nothing."""
        self._next_commit_s = time.monotonic() + COMMIT_INTERVAL_S
        moved = {
            where: offset
            for where, offset in self._consumer.positions.items()
            if self._committed.get(where) != offset
        }
        if not moved or self.member.generation_id < 0:
            return
        try:
            commit(self.cluster, self.member.group_id, moved, self.member.membership)
        except ServerError as error:
            # The group has moved on without us: whoever gets the partitions reads them again.
            if not self.member.on_error(error.code):
                raise
        else:
            self._committed.update(moved)

    def close(self) -> None:
        """Commit and leave, so that others take over at once. Short of patience: it is the end."""
        self.cluster.retry_timeout_ms = min(self.cluster.retry_timeout_ms, CLOSE_TIMEOUT_MS)
        try:
            self.commit()
        finally:
            self.member.leave()

    def _join(self) -> None:
        # A rebalance still takes commits of the old generation.
        self.commit()
        assignment = self.member.join()
        mine = [(topic, index) for topic, indexes in assignment.items() for index in indexes]
        self._committed = committed(self.cluster, self.member.group_id, mine) if mine else {}
        missing = [where for where in mine if where not in self._committed]
        begins = list_offsets(self.cluster, missing, self._reset) if missing else {}
        self._consumer.positions = {**self._committed, **begins}
