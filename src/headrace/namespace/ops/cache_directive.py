"""Cache directives: add, modify, remove (with write permission on their pools), list."""

from typing import TYPE_CHECKING, NamedTuple

from headrace.namespace import caching, paths, refusals
from headrace.namespace.caching import CacheDirective, CacheNeeds, CachePool
from headrace.namespace.caller import Caller
from headrace.namespace.permissions import READ, WRITE
from headrace.namespace.protos import edits_pb2
from headrace.namespace.protos.edits_pb2 import Edit
from headrace.namespace.requests import (
    AddCacheDirective,
    ListCacheDirectives,
    ModifyCacheDirective,
    RemoveCacheDirective,
)
from headrace.wire.hadoop.exceptions import RemoteError

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

_LISTED_MAX = 100


class ListedDirective(NamedTuple):
    directive: CacheDirective
    needs: CacheNeeds
    has_expired: bool


class ListedDirectives(NamedTuple):
    directives: tuple[ListedDirective, ...]
    has_more: bool


# -- what may be asked --------------------------------------------------------------------------


def _pool(ns: "Namespace", name: str | None, caller: Caller) -> CachePool:
    """One that the caller may add to and take from."""
    if name is None:
        raise refusals.invalid_request("No pool specified.")
    if not name:
        raise refusals.invalid_request("Invalid empty pool name.")
    pool = ns.caching.pools.get(name)
    if pool is None:
        raise refusals.invalid_request(f"Unknown pool {name}")
    if not caching.may_use(ns, pool, caller, WRITE):
        raise refusals.denied(
            f"Permission denied while accessing pool {name}: user {caller.user} does not have "
            "WRITE permissions."
        )
    return pool


def _path(path: str | None) -> str:
    if path is None:
        raise refusals.invalid_request("No path specified.")
    try:
        return "/" + "/".join(paths.split(path))
    except RemoteError:
        raise refusals.invalid_request(f"Invalid path '{path}'.") from None


def _replication(replication: int) -> int:
    if replication <= 0:
        raise refusals.invalid_request(f"Invalid replication factor {replication} <= 0")
    if replication > caching.REPLICATION_MAX:
        raise refusals.invalid_request(f"Invalid replication factor {replication}")
    return replication


def _expiry_ms(
    request: AddCacheDirective | ModifyCacheDirective, pool: CachePool, now_ms: int
) -> int:
    """As a time of the clock; without one, the latest that the pool allows."""
    latest_ms = now_ms + pool.max_relative_expiry_ms
    if request.expiry_ms is None:
        return latest_ms
    if request.expiry_ms < 0:
        raise refusals.invalid_request(f"Cannot set a negative expiration: {request.expiry_ms}")
    asked_ms = request.expiry_ms + (now_ms if request.is_expiry_relative else 0)
    if asked_ms > latest_ms:
        raise refusals.invalid_request(
            f"Expiration {request.expiry_ms} exceeds the max relative expiration time of "
            f"{pool.max_relative_expiry_ms} ms."
        )
    return asked_ms


def _check_limit(ns: "Namespace", pool: CachePool, directive: CacheDirective, now_ms: int) -> None:
    if pool.limit_bytes == caching.UNLIMITED:
        return
    others = caching.needs_of_pool(ns, pool.name, now_ms, without_id=directive.directive_id)
    room = pool.limit_bytes - others.byte_count
    needed = caching.needs_of_directive(ns, directive, now_ms).byte_count
    if needed > room:
        raise refusals.invalid_request(
            f"Caching path {directive.path} of size {needed // directive.replication} bytes at "
            f"replication {directive.replication} would exceed pool {pool.name}'s remaining "
            f"capacity of {room} bytes."
        )


def _existing(ns: "Namespace", directive_id: int) -> CacheDirective:
    if directive_id <= 0:
        raise refusals.invalid_request("Invalid negative ID.")
    directive = ns.caching.directives.get(directive_id)
    if directive is None:
        raise refusals.invalid_request(f"No directive with ID {directive_id} found.")
    return directive


# -- changes ------------------------------------------------------------------------------------


def decide_add(
    ns: "Namespace", request: AddCacheDirective, caller: Caller, now_ms: int
) -> tuple[list[Edit], int]:
    pool = _pool(ns, request.pool, caller)
    replication = request.replication
    directive = CacheDirective(
        ns.caching.last_directive_id + 1,
        _path(request.path),
        _replication(pool.default_replication if replication is None else replication),
        pool.name,
        _expiry_ms(request, pool, now_ms),
    )
    if not request.force:
        _check_limit(ns, pool, directive, now_ms)
    return [_record(directive)], directive.directive_id


def decide_modify(
    ns: "Namespace", request: ModifyCacheDirective, caller: Caller, now_ms: int
) -> tuple[list[Edit], None]:
    old = _existing(ns, request.directive_id)
    pool = _pool(ns, old.pool, caller)
    if request.pool is not None:
        pool = _pool(ns, request.pool, caller)
    keeps_expiry = request.expiry_ms is None and pool.name == old.pool
    new = CacheDirective(
        old.directive_id,
        old.path if request.path is None else _path(request.path),
        old.replication if request.replication is None else _replication(request.replication),
        pool.name,
        old.expiry_ms if keeps_expiry else _expiry_ms(request, pool, now_ms),
    )
    if not request.force:
        _check_limit(ns, pool, new, now_ms)
    return [] if new == old else [_record(new)], None


def _record(directive: CacheDirective) -> Edit:
    return Edit(set_cache_directive=edits_pb2.CacheDirective(**directive._asdict()))


def replay_set(ns: "Namespace", record: edits_pb2.CacheDirective) -> None:
    ns.caching.set_directive(directive_of(record))


def directive_of(record: edits_pb2.CacheDirective) -> CacheDirective:
    return CacheDirective(*(getattr(record, name) for name in CacheDirective._fields))


def decide_remove(
    ns: "Namespace", request: RemoveCacheDirective, caller: Caller, _now_ms: int
) -> tuple[list[Edit], None]:
    directive = _existing(ns, request.directive_id)
    _pool(ns, directive.pool, caller)
    record = edits_pb2.RemoveCacheDirective(directive_id=directive.directive_id)
    return [Edit(remove_cache_directive=record)], None


def replay_remove(ns: "Namespace", record: edits_pb2.RemoveCacheDirective) -> None:
    ns.caching.remove_directive(record.directive_id)


# -- reads --------------------------------------------------------------------------------------


def read(
    ns: "Namespace", request: ListCacheDirectives, caller: Caller, now_ms: int
) -> ListedDirectives:
    table = ns.caching
    path = None if request.path is None else _path(request.path)
    matching = [
        directive
        for directive_id, directive in sorted(table.directives.items())
        if directive_id > request.after_id
        and request.directive_id in (None, directive_id)
        and request.pool in (None, directive.pool)
        and path in (None, directive.path)
        and caching.may_use(ns, table.pools[directive.pool], caller, READ)
    ]
    listed = tuple(
        ListedDirective(
            directive,
            caching.needs_of_directive(ns, directive, now_ms),
            directive.expiry_ms <= now_ms,
        )
        for directive in matching[:_LISTED_MAX]
    )
    return ListedDirectives(listed, len(matching) > _LISTED_MAX)
