"""ACLs: how entries are merged, masked, stored and inherited.

Owns: the algebra. Spec: POSIX 1003.1e draft 17 as HDFS's AclTransformation and AclStorage do it.

Stored form: `Access.mode` has owner, mask (in the group's place) and other; the tuple beside it
has the access entries that the mode can't tell (named users, the group, named groups) and all
default entries. No ACL: an empty tuple, and the mode means what it always means.
"""

from collections.abc import Iterable, Sequence

from headrace.namespace.protos import edits_pb2
from headrace.namespace.values import AclEntry
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

USER, GROUP, MASK, OTHER = 0, 1, 2, 3
ACCESS, DEFAULT = 0, 1

_ORDER = {USER: 0, GROUP: 1, MASK: 2, OTHER: 3}
Key = tuple[int, int, str]


def _key(entry: AclEntry) -> Key:
    return (entry.scope, entry.type, entry.name)


def _sorted(entries: Iterable[AclEntry]) -> list[AclEntry]:
    return sorted(entries, key=lambda e: (e.scope, _ORDER[e.type], bool(e.name), e.name))


def refusal(message: str) -> RemoteError:
    return RemoteError(exceptions.ACL, message)


def full(mode: int, acl: Sequence[AclEntry]) -> list[AclEntry]:
    """All entries of an inode, the mode's own among them."""
    access = [entry for entry in acl if entry.scope == ACCESS]
    entries = [AclEntry(USER, ACCESS, (mode >> 6) & 7), AclEntry(OTHER, ACCESS, mode & 7)]
    if access:
        entries += access
        entries.append(AclEntry(MASK, ACCESS, (mode >> 3) & 7))
    else:
        entries.append(AclEntry(GROUP, ACCESS, (mode >> 3) & 7))
    return _sorted([*entries, *(entry for entry in acl if entry.scope == DEFAULT)])


def stored(mode: int, entries: Sequence[AclEntry]) -> tuple[int, tuple[AclEntry, ...]]:
    """The reverse of `full`: a mode and what it can't tell. Entries are complete and legal."""
    access = {(e.type, e.name): e for e in entries if e.scope == ACCESS}
    default = [e for e in entries if e.scope == DEFAULT]
    has_named = any(name or kind == MASK for kind, name in access)
    middle = access[(MASK, "")] if has_named else access[(GROUP, "")]
    bits = (
        access[(USER, "")].permission << 6 | middle.permission << 3 | access[(OTHER, "")].permission
    )
    kept: list[AclEntry] = []
    if has_named:
        kept = [e for (kind, name), e in access.items() if name or kind == GROUP]
    return (mode & 0o1000) | bits, tuple(_sorted([*kept, *default]))


def validated(entries: Iterable[AclEntry], entries_max: int) -> list[AclEntry]:
    """Refuse duplicates, and too many."""
    result: dict[Key, AclEntry] = {}
    for entry in entries:
        if _key(entry) in result:
            raise refusal("Invalid ACL: multiple entries with same scope, type and name.")
        result[_key(entry)] = entry
    for scope, what in ((ACCESS, "access"), (DEFAULT, "default")):
        count = sum(1 for key in result if key[0] == scope)
        if count > entries_max:
            raise refusal(
                f"Invalid ACL: ACL has {count} {what} entries, which exceeds maximum of "
                f"{entries_max}."
            )
    return list(result.values())


def modified(
    existing: Sequence[AclEntry], changes: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    wanted = validated(changes, entries_max)
    merged = {_key(entry): entry for entry in [*existing, *wanted]}
    return _completed(merged.values(), wanted, entries_max)


def without(
    existing: Sequence[AclEntry], removed: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    gone = {_key(entry) for entry in removed}
    kept = [entry for entry in existing if _key(entry) not in gone]
    return _completed(kept, [e for e in existing if _key(e) in gone], entries_max)


def replaced(
    existing: Sequence[AclEntry], entries: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    """setAcl: the scopes that are named are replaced whole; an unnamed default stays."""
    wanted = validated(entries, entries_max)
    scopes = {entry.scope for entry in wanted}
    kept = [entry for entry in existing if entry.scope not in scopes]
    return _completed([*kept, *wanted], wanted, entries_max)


def _completed(
    entries: Iterable[AclEntry], touched: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    """Add what must be there: default base entries from the access ones, and masks.

    `touched` are the entries that were given or taken away. A mask alone makes no ACL: it goes
    where its scope has nothing else.
    """
    plain = {_key(entry): entry for entry in entries if entry.type != MASK}
    masks = {entry.scope: entry for entry in entries if entry.type == MASK}
    if any(key[0] == DEFAULT for key in plain):
        for kind in (USER, GROUP, OTHER):
            source = plain.get((ACCESS, kind, ""))
            if source is not None:
                plain.setdefault((DEFAULT, kind, ""), AclEntry(kind, DEFAULT, source.permission))
    complete = list(plain.values())
    for scope in sorted({entry.scope for entry in complete}):
        mask = _mask(scope, complete, masks.get(scope), touched)
        complete += [] if mask is None else [mask]
    for entry in complete:
        if entry.name and entry.type in (MASK, OTHER):
            raise refusal(f"Invalid ACL: this entry type must not have a name: {entry}.")
    for kind in (USER, GROUP, OTHER):
        if (ACCESS, kind, "") not in plain:
            raise refusal("Invalid ACL: the user, group and other entries are required.")
    return validated(_sorted(complete), entries_max)


def _mask(
    scope: int, entries: Sequence[AclEntry], given: AclEntry | None, touched: Sequence[AclEntry]
) -> AclEntry | None:
    """The mask of a scope: as it was told or was, or worked out anew; None: it needs none."""
    is_needed = any(entry.scope == scope and entry.name for entry in entries)
    is_touched = any(entry.scope == scope for entry in touched)
    is_mask_touched = any(entry.scope == scope and entry.type == MASK for entry in touched)
    if given is None and is_needed and is_mask_touched:
        raise refusal("Invalid ACL: mask is required and cannot be deleted.")
    if given is not None and (is_mask_touched or not is_touched):
        return given
    if given is None and not is_needed:
        return None
    union = 0
    for entry in entries:
        if entry.scope == scope and (entry.type == GROUP or entry.name):
            union |= entry.permission
    return AclEntry(MASK, scope, union)


def inherited(
    parent_acl: Sequence[AclEntry], mode: int, unmasked: int | None, *, is_directory: bool
) -> tuple[int, tuple[AclEntry, ...]]:
    """What a new inode below a directory with a default ACL gets: (mode, acl)."""
    if not parent_acl:
        return mode, ()
    default = [entry for entry in parent_acl if entry.scope == DEFAULT]
    if not default:
        return mode, ()
    asked = mode if unmasked is None else unmasked
    entries: list[AclEntry] = []
    has_named = any(entry.name or entry.type == MASK for entry in default)
    for entry in default:
        permission = entry.permission
        if entry.type == USER and not entry.name:
            permission &= asked >> 6
        elif entry.type == MASK or (entry.type == GROUP and not entry.name and not has_named):
            permission &= asked >> 3
        elif entry.type == OTHER:
            permission &= asked
        entries.append(AclEntry(entry.type, ACCESS, permission & 7, entry.name))
    if is_directory:
        entries += default
    return stored(asked, entries)


# -- records ------------------------------------------------------------------------------------


def to_records(acl: Iterable[AclEntry]) -> list[edits_pb2.AclEntry]:
    return [
        edits_pb2.AclEntry(
            type=entry.type, scope=entry.scope, permission=entry.permission, name=entry.name
        )
        for entry in acl
    ]


def from_records(records: Iterable[edits_pb2.AclEntry]) -> tuple[AclEntry, ...]:
    return tuple(AclEntry(r.type, r.scope, r.permission, r.name) for r in records)
