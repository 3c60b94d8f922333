"""Cache pools: add, modify, remove (the superuser's), list."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.namespace import caching, refusals
from headrace.namespace.caching import CacheNeeds, CachePool
from headrace.namespace.caller import Caller
from headrace.namespace.permissions import READ, require_superuser
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    AddCachePool,
    ListCachePools,
    ModifyCachePool,
    RemoveCachePool,
)

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_LISTED_MAX = 100


class ListedPool(NamedTuple):
    """Who may not read a pool learns its name alone."""

    pool: CachePool
    needs: CacheNeeds
    is_readable: bool


class ListedPools(NamedTuple):
    pools: tuple[ListedPool, ...]
    has_more: bool


def _check(request: AddCachePool | ModifyCachePool) -> None:
    if not request.name:
        raise refusals.io("invalid empty cache pool name")
    if (request.limit_bytes or 0) < 0:
        raise refusals.invalid_request("Limit is negative.")
    if not 0 <= (request.mode or 0) <= 0o1777:
        raise refusals.invalid_request(f"Invalid mode {request.mode}.")
    if (request.default_replication or 0) > caching.REPLICATION_MAX:
        raise refusals.invalid_request("Default replication is too big.")
    expiry_ms = request.max_relative_expiry_ms or 0
    if expiry_ms < 0:
        raise refusals.invalid_request("Max relative expiry is negative.")
    if expiry_ms > caching.MAX_RELATIVE_EXPIRY_MS:
        raise refusals.invalid_request("Max relative expiry is too big.")


def decide_add(
    ns: "Namespace", request: AddCachePool, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "addCachePool")
    _check(request)
    if request.name in ns.caching.pools:
        raise refusals.invalid_request(f"Cache pool {request.name} already exists.")
    group = caller.groups[0] if caller.groups else ns.settings.supergroup
    return [_record(_changed(CachePool(request.name, caller.user, group), request))], None


def decide_modify(
    ns: "Namespace", request: ModifyCachePool, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "modifyCachePool")
    _check(request)
    pool = ns.caching.pools.get(request.name)
    if pool is None:
        raise refusals.invalid_request(f"Cache pool {request.name} does not exist.")
    changed = _changed(pool, request)
    return [] if changed == pool else [_record(changed)], None


def _changed(pool: CachePool, request: AddCachePool | ModifyCachePool) -> CachePool:
    given = {name: value for name, value in request._asdict().items() if value is not None}
    return pool._replace(**given)


def _record(pool: CachePool) -> Edit:
    return Edit(set_cache_pool=edits_pb2.CachePool(**pool._asdict()))


def replay_set(ns: "Namespace", record: edits_pb2.CachePool) -> None:
    ns.caching.set_pool(pool_of(record))


def pool_of(record: edits_pb2.CachePool) -> CachePool:
    return CachePool(*(getattr(record, name) for name in CachePool._fields))


def decide_remove(
    ns: "Namespace", request: RemoveCachePool, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    require_superuser(ns, caller, "removeCachePool")
    if not request.name:
        raise refusals.io("invalid empty cache pool name")
    if request.name not in ns.caching.pools:
        raise refusals.invalid_request(f"Cannot remove non-existent cache pool {request.name}")
    record = edits_pb2.RemoveCachePool(name=request.name)
    return [Edit(remove_cache_pool=record)], None


def replay_remove(ns: "Namespace", record: edits_pb2.RemoveCachePool) -> None:
    ns.caching.remove_pool(record.name)


def read(ns: "Namespace", request: ListCachePools, caller: Caller, now_ms: int) -> ListedPools:
    pools = ns.caching.pools
    names = sorted(name for name in pools if name > request.after_name)
    found = []
    for name in names[:_LISTED_MAX]:
        is_readable = caching.may_use(ns, pools[name], caller, READ)
        needs = caching.needs_of_pool(ns, name, now_ms) if is_readable else caching.NOTHING
        found.append(ListedPool(pools[name], needs, is_readable))
    return ListedPools(tuple(found), len(names) > _LISTED_MAX)
