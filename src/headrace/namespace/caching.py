"""Cache pools and directives: what operators ask to be kept in DataNodes' memory.

Owns: the values, the table of them, what a directive would need, and who may use a pool.
Must not know: requests, DataNodes. None of them caches yet: what is needed is told, what is cached
is nothing.
Spec: HDFS's centralized cache management, CacheManager.

Invariants: a directive's pool is there; a directive's id is never handed out again.
"""

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
    """`byte_count` counts every replica that is asked for."""

    byte_count: int
    file_count: int


NOTHING = CacheNeeds(0, 0)


class CacheTable:
    def __init__(self) -> None:
        self.pools: dict[str, CachePool] = {}
        self.directives: dict[int, CacheDirective] = {}
        self.last_directive_id = 0

    def remove_pool(self, name: str) -> None:
        del self.pools[name]
        for directive in [d for d in self.directives.values() if d.pool == name]:
            del self.directives[directive.directive_id]

    def set_directive(self, directive: CacheDirective) -> None:
        self.directives[directive.directive_id] = directive
        self.last_directive_id = max(self.last_directive_id, directive.directive_id)


def may_use(ns: "Namespace", pool: CachePool, caller: Caller, wanted: int) -> bool:
    if not ns.settings.permissions_enabled or is_superuser(ns, caller):
        return True
    shift = 6 if caller.user == pool.owner else 3 if pool.group in caller.groups else 0
    return (pool.mode >> shift) & wanted == wanted


def needs_of_path(ns: "Namespace", path: str, replication: int) -> CacheNeeds:
    """A file, or the files right in a directory; nothing where neither is."""
    inode: Inode | None = ns.root
    for name in split(path):
        inode = inode.children.get(name) if isinstance(inode, DirectoryInode) else None
    found = inode.children.values() if isinstance(inode, DirectoryInode) else (inode,)
    lengths = [file.length for file in found if isinstance(file, FileInode)]
    return CacheNeeds(sum(lengths) * replication, len(lengths))


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
    return CacheNeeds(sum(n.byte_count for n in needs), sum(n.file_count for n in needs))
