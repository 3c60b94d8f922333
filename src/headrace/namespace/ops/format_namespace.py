"""The first record of a namespace: its ids, and who owns the root."""

from typing import TYPE_CHECKING

from headrace.base.randomness import Random
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace


def decide(
    ns: "Namespace", cluster_id: str, address: str, random: Random, now_ms: int
) -> tuple[list[Edit], bool]:
    """Ids for a namespace that has none."""
    if ns.pool_id:
        return [], False
    number = random.randrange(1, 2**31)
    record = edits_pb2.Format(
        namespace_id=number,
        cluster_id=cluster_id or f"CID-{random.randbytes(16).hex()}",
        pool_id=f"BP-{random.randrange(1, 2**31)}-{address}-{now_ms}",
        time_ms=now_ms,
        owner=ns.settings.superuser,
        group=ns.settings.supergroup,
    )
    return [Edit(format=record)], True


def replay(ns: "Namespace", record: edits_pb2.Format) -> None:
    ns.namespace_id = record.namespace_id
    ns.cluster_id = record.cluster_id
    ns.pool_id = record.pool_id
    ns.c_time_ms = record.time_ms
    ns.root.access = ns.access(record.owner, record.group, 0o755)
    ns.root.modification_time_ms = record.time_ms
