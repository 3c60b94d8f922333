"""ClientNamenodeProtocol, cache pools and directives (`hdfs cacheadmin`)."""

from typing import Any

from headrace.namespace import requests
from headrace.namespace.ops.cache_directive import ListedDirective, ListedDirectives
from headrace.namespace.ops.cache_pool import ListedPool, ListedPools
from headrace.namespace.rpc.translation import Translation
from headrace.wire.hadoop.protos import client_namenode_pb2 as pb


def _given(message: Any, field: str) -> Any:
    return getattr(message, field) if message.HasField(field) else None


def _pool_fields(info: pb.CachePoolInfoProto) -> dict[str, Any]:
    return {
        "name": info.poolName,
        "owner": _given(info, "ownerName"),
        "group": _given(info, "groupName"),
        "mode": _given(info, "mode"),
        "limit_bytes": _given(info, "limit"),
        "default_replication": _given(info, "defaultReplication"),
        "max_relative_expiry_ms": _given(info, "maxRelativeExpiry"),
    }


def _directive_fields(message: Any) -> dict[str, Any]:
    info = message.info
    return {
        "path": _given(info, "path"),
        "pool": _given(info, "pool"),
        "replication": _given(info, "replication"),
        "expiry_ms": _given(info.expiration, "millis"),
        "is_expiry_relative": info.expiration.isRelative,
        "force": bool(message.cacheFlags & pb.FORCE),
    }


def _pool_message(listed: ListedPool) -> pb.CachePoolEntryProto:
    pool, needs, is_readable = listed
    info = pb.CachePoolInfoProto(poolName=pool.name)
    if is_readable:
        info.ownerName = pool.owner
        info.groupName = pool.group
        info.mode = pool.mode
        info.limit = pool.limit_bytes
        info.maxRelativeExpiry = pool.max_relative_expiry_ms
        info.defaultReplication = pool.default_replication
    stats = pb.CachePoolStatsProto(
        bytesNeeded=needs.byte_count,
        bytesCached=needs.cached_byte_count,
        bytesOverlimit=max(0, needs.byte_count - pool.limit_bytes) if is_readable else 0,
        filesNeeded=needs.file_count,
        filesCached=needs.cached_file_count,
    )
    return pb.CachePoolEntryProto(info=info, stats=stats)


def _directive_message(listed: ListedDirective) -> pb.CacheDirectiveEntryProto:
    directive, needs, has_expired = listed
    return pb.CacheDirectiveEntryProto(
        info=pb.CacheDirectiveInfoProto(
            id=directive.directive_id,
            path=directive.path,
            replication=directive.replication,
            pool=directive.pool,
            expiration=pb.CacheDirectiveInfoExpirationProto(
                millis=directive.expiry_ms, isRelative=False
            ),
        ),
        stats=pb.CacheDirectiveStatsProto(
            bytesNeeded=needs.byte_count,
            bytesCached=needs.cached_byte_count,
            filesNeeded=needs.file_count,
            filesCached=needs.cached_file_count,
            hasExpired=has_expired,
        ),
    )


def _pools(found: ListedPools) -> pb.ListCachePoolsResponseProto:
    return pb.ListCachePoolsResponseProto(
        entries=map(_pool_message, found.pools), hasMore=found.has_more
    )


def _directives(found: ListedDirectives) -> pb.ListCacheDirectivesResponseProto:
    return pb.ListCacheDirectivesResponseProto(
        elements=map(_directive_message, found.directives), hasMore=found.has_more
    )


CACHING: dict[str, Translation] = {
    "addCachePool": Translation(
        lambda m: requests.AddCachePool(**_pool_fields(m.info)),
        lambda _: pb.AddCachePoolResponseProto(),
    ),
    "modifyCachePool": Translation(
        lambda m: requests.ModifyCachePool(**_pool_fields(m.info)),
        lambda _: pb.ModifyCachePoolResponseProto(),
    ),
    "removeCachePool": Translation(
        lambda m: requests.RemoveCachePool(m.poolName),
        lambda _: pb.RemoveCachePoolResponseProto(),
    ),
    "listCachePools": Translation(lambda m: requests.ListCachePools(m.prevPoolName), _pools),
    "addCacheDirective": Translation(
        lambda m: requests.AddCacheDirective(**_directive_fields(m)),
        lambda directive_id: pb.AddCacheDirectiveResponseProto(id=directive_id),
    ),
    "modifyCacheDirective": Translation(
        lambda m: requests.ModifyCacheDirective(m.info.id, **_directive_fields(m)),
        lambda _: pb.ModifyCacheDirectiveResponseProto(),
    ),
    "removeCacheDirective": Translation(
        lambda m: requests.RemoveCacheDirective(m.id),
        lambda _: pb.RemoveCacheDirectiveResponseProto(),
    ),
    "listCacheDirectives": Translation(
        lambda m: requests.ListCacheDirectives(
            m.prevId, _given(m.filter, "id"), _given(m.filter, "path"), _given(m.filter, "pool")
        ),
        _directives,
    ),
}
