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
    """Refuse duplicates, wrong names and too many."""
    result: dict[Key, AclEntry] = {}
    for entry in entries:
        if _key(entry) in result:
            raise refusal(f"Invalid ACL: multiple entries with same scope, type and name: {entry}")
        if entry.name and entry.type in (MASK, OTHER):
            raise refusal(f"Invalid ACL: this entry type must not have a name: {entry}")
        result[_key(entry)] = entry
    for scope in (ACCESS, DEFAULT):
        if sum(1 for key in result if key[0] == scope) > entries_max:
            raise refusal(f"Invalid ACL: ACL has more than the maximum of {entries_max} entries")
    return list(result.values())


def modified(
    existing: Sequence[AclEntry], changes: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    merged = {_key(entry): entry for entry in existing}
    merged |= {_key(entry): entry for entry in validated(changes, entries_max)}
    return completed(merged, {_key(entry) for entry in changes}, entries_max)


def without(
    existing: Sequence[AclEntry], removed: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    gone = {_key(entry) for entry in removed}
    kept = {_key(entry): entry for entry in existing if _key(entry) not in gone}
    touched_default_base = any(k[0] == DEFAULT for k in gone)
    if touched_default_base and not any(k[0] == DEFAULT and k[2] for k in kept):
        _drop_lone_default(kept, gone)
    return completed(kept, set(), entries_max, recompute=_scopes(removed))


def _drop_lone_default(kept: dict[Key, AclEntry], gone: set[Key]) -> None:
    """Default entries that were all asked to go leave no default ACL behind."""
    base = [key for key in kept if key[0] == DEFAULT and key[1] != MASK]
    if not base:
        for key in [key for key in kept if key[0] == DEFAULT]:
            del kept[key]
    elif (DEFAULT, MASK, "") in gone:
        kept.pop((DEFAULT, MASK, ""), None)


def _scopes(entries: Iterable[AclEntry]) -> set[int]:
    return {entry.scope for entry in entries}


def replaced(
    existing: Sequence[AclEntry], entries: Sequence[AclEntry], entries_max: int
) -> list[AclEntry]:
    """setAcl: the scopes that are named are replaced whole; an unnamed default stays."""
    wanted = validated(entries, entries_max)
    scopes = _scopes(wanted)
    kept = [entry for entry in existing if entry.scope not in scopes]
    merged = {_key(entry): entry for entry in [*kept, *wanted]}
    return completed(merged, {_key(e) for e in wanted}, entries_max, recompute=scopes)


def completed(
    entries: dict[Key, AclEntry],
    given: set[Key],
    entries_max: int,
    recompute: set[int] | None = None,
) -> list[AclEntry]:
    """Add what must be there: default base entries from the access ones, and masks."""
    if any(key[0] == DEFAULT for key in entries):
        for kind in (USER, GROUP, OTHER):
            key = (DEFAULT, kind, "")
            if key not in entries:
                source = entries.get((ACCESS, kind, ""))
                if source is not None:
                    entries[key] = AclEntry(kind, DEFAULT, source.permission)
    for scope in (ACCESS, DEFAULT):
        _complete_mask(entries, scope, given, recompute)
    for kind in (USER, GROUP, OTHER):
        if (ACCESS, kind, "") not in entries:
            raise refusal("Invalid ACL: the user, group and other entries are required.")
    return validated(_sorted(entries.values()), entries_max)


def _complete_mask(
    entries: dict[Key, AclEntry], scope: int, given: set[Key], recompute: set[int] | None
) -> None:
    mask_key = (scope, MASK, "")
    named = [k for k in entries if k[0] == scope and k[2]]
    if not named and mask_key not in given:
        entries.pop(mask_key, None)
        return
    if mask_key in given:
        return
    touched = {k[0] for k in given} if recompute is None else recompute
    if mask_key in entries and scope not in touched:
        return
    union = 0
    for key, entry in entries.items():
        if key[0] == scope and (key[1] == GROUP or (key[1] == USER and key[2])):
            union |= entry.permission
    entries[mask_key] = AclEntry(MASK, scope, union)


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
    return stored(mode, entries)


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
