"""Cache pools and directives: what operators ask to be kept in DataNodes' memory.

Owns: the values, the table of them, what a directive needs and has, and who may use a pool.
Must not know: requests, DataNodes (`cache_placement` tells them what to hold).
Spec: HDFS's centralized cache management, CacheManager.

Invariants: a directive's pool is there; a directive's id is never handed out again.
"""

from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from headrace.namespace.caller import Caller
from headrace.namespace.inodes import DirectoryInode, FileInode, Inode
from headrace.namespace.paths import split
from headrace.namespace.permissions import is_superuser

if TYPE_CHECKING:
    from headrace.namespace.filesystem import Namespace

UNLIMITED = 2**63 - 1
MAX_RELATIVE_EXPIRY_MS = UNLIMITED // 4
DEFAULT_MODE = 0o755
REPLICATION_MAX = 2**15 - 1
"""What fits into the short that Java's clients make of it."""


class CachePool(NamedTuple):
    name: str
    owner: str
    group: str
    mode: int = DEFAULT_MODE
    limit_bytes: int = UNLIMITED
    default_replication: int = 1
    max_relative_expiry_ms: int = MAX_RELATIVE_EXPIRY_MS


class CacheDirective(NamedTuple):
    directive_id: int
    path: str
    replication: int
    pool: str
    expiry_ms: int


class CacheNeeds(NamedTuple):
    """`byte_count` counts every replica that is asked for; what is cached is a part of that."""

    byte_count: int
    file_count: int
    cached_byte_count: int = 0
    cached_file_count: int = 0
    """Files that are in memory as a whole, as often as it was asked for."""

    def plus(self, other: "CacheNeeds") -> "CacheNeeds":
        return CacheNeeds(*(mine + its for mine, its in zip(self, other, strict=True)))


NOTHING = CacheNeeds(0, 0)


class CacheTable:
    def __init__(self) -> None:
        self.pools: dict[str, CachePool] = {}
        self.directives: dict[int, CacheDirective] = {}
        self.last_directive_id = 0
        self.change_count = 0
        """Tells whether anything changed since somebody looked."""

    def set_pool(self, pool: CachePool) -> None:
        self.pools[pool.name] = pool
        self.change_count += 1

    def remove_pool(self, name: str) -> None:
        del self.pools[name]
        self.change_count += 1
        for directive in [d for d in self.directives.values() if d.pool == name]:
            del self.directives[directive.directive_id]

    def set_directive(self, directive: CacheDirective) -> None:
        self.directives[directive.directive_id] = directive
        self.change_count += 1
        self.last_directive_id = max(self.last_directive_id, directive.directive_id)

    def remove_directive(self, directive_id: int) -> None:
        del self.directives[directive_id]
        self.change_count += 1


def may_use(ns: "Namespace", pool: CachePool, caller: Caller, wanted: int) -> bool:
    if not ns.settings.permissions_enabled or is_superuser(ns, caller):
        return True
    shift = 6 if caller.user == pool.owner else 3 if pool.group in caller.groups else 0
    return (pool.mode >> shift) & wanted == wanted


def files_at(ns: "Namespace", path: str) -> list[FileInode]:
    """A file, or the files right in a directory; nothing where neither is."""
    inode: Inode | None = ns.root
    for name in split(path):
        inode = inode.children.get(name) if isinstance(inode, DirectoryInode) else None
    found = inode.children.values() if isinstance(inode, DirectoryInode) else (inode,)
    return [file for file in found if isinstance(file, FileInode)]


def needs_of_path(ns: "Namespace", path: str, replication: int) -> CacheNeeds:
    needs = NOTHING
    for file in files_at(ns, path):
        wanted = file.length * replication
        cached = sum(
            block.num_bytes * min(ns.cached_count(block.block_id), replication)
            for block in file.blocks
        )
        needs = needs.plus(CacheNeeds(wanted, 1, min(cached, wanted), int(cached >= wanted)))
    return needs


def needs_of_directive(ns: "Namespace", directive: CacheDirective, now_ms: int) -> CacheNeeds:
    if directive.expiry_ms <= now_ms:
        return NOTHING
    return needs_of_path(ns, directive.path, directive.replication)


def needs_of_pool(ns: "Namespace", pool: str, now_ms: int, without_id: int = 0) -> CacheNeeds:
    needs = [
        needs_of_directive(ns, directive, now_ms)
        for directive in ns.caching.directives.values()
        if directive.pool == pool and directive.directive_id != without_id
    ]
    return reduce(CacheNeeds.plus, needs, NOTHING)
