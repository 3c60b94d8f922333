"""What an interrupted deletion or cleaning left in a partition's folder.

Owns: the meaning of the suffixes `.deleted`, `.cleaned`, `.swap`, and of files without a log.
Must not know: what is in a segment.

Spec: Kafka's LogLoader. A cleaner writes `.cleaned`, renames all of it to `.swap` when whole,
renames the old segments to `.deleted`, and at last drops the suffix `.swap`:

1. `.cleaned` was not whole: it goes, and every `.swap` at or behind it (the rename of a group
   that had not ended); the old segments are still there.
2. `.swap` is whole: it takes its name, over the old segment of that name. Old segments that
   it replaces besides start before it ends; they go first. Its indexes are renamed before its
   log: one without a suffix is the new one's as soon as the old log is gone.
3. `.deleted` goes.

`.compacted` says that the folder's offsets may have gaps: a policy may change, a gap stays.

Invariant: interrupted anywhere, the next run ends in the same state.
"""

import re

from headrace.base.storage import Storage
from headrace.log.batches import walk

_SUFFIXED = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(\.\w+)\Z")
_INDEX = re.compile(r"(\d{20})\.(index|timeindex|txnindex)\Z")


GAPS = ".compacted"


def has_gaps(storage: Storage, folder: str) -> bool:
    return storage.exists(f"{folder}/{GAPS}")


def note_gaps(storage: Storage, folder: str) -> None:
    """Durable with the names of the folder's files."""
    if not has_gaps(storage, folder):
        storage.open(f"{folder}/{GAPS}", create=True).close()


def tidy(storage: Storage, folder: str) -> None:
    names = storage.list(folder)
    suffixed = [match for match in map(_SUFFIXED.match, names) if match]
    cleaned = [int(match[1]) for match in suffixed if match[3] == ".cleaned"]
    swaps: list[int] = []
    for match in suffixed:
        name, base_offset, suffix = match[0], int(match[1]), match[3]
        is_unfinished = suffix == ".swap" and cleaned and base_offset >= min(cleaned)
        if suffix in (".deleted", ".cleaned") or is_unfinished:
            storage.remove(f"{folder}/{name}")
        elif suffix == ".swap" and match[2] == "log":
            swaps.append(base_offset)
    for base_offset in swaps:
        _finish_swap(storage, folder, base_offset)
    _remove_orphans(storage, folder)


def _finish_swap(storage: Storage, folder: str, base_offset: int) -> None:
    swap = f"{folder}/{base_offset:020d}.log.swap"
    file = storage.open(swap, read_only=True)
    end_offset = base_offset + 1
    for _, header in walk(file, 0, file.size()):
        end_offset = header.next_offset
    file.close()
    for name in storage.list(folder):
        base = int(name[:20]) if re.fullmatch(r"\d{20}\.log", name) else -1
        if base_offset < base < end_offset:
            storage.remove(f"{folder}/{name}")
    is_old_there = storage.exists(swap.removesuffix(".swap"))
    for suffix in (".index", ".timeindex", ".txnindex"):
        stem = f"{folder}/{base_offset:020d}{suffix}"
        if not storage.exists(stem + ".swap") and is_old_there and storage.exists(stem):
            storage.remove(stem)
    if is_old_there:
        # Not before its indexes are gone, or they would look like the new one's.
        storage.remove(swap.removesuffix(".swap"))
    for suffix in (".index", ".timeindex", ".txnindex"):
        stem = f"{folder}/{base_offset:020d}{suffix}"
        if storage.exists(stem + ".swap"):
            storage.rename(stem + ".swap", stem)
    storage.rename(swap, swap.removesuffix(".swap"))


def _remove_orphans(storage: Storage, folder: str) -> None:
    """Index files whose log is gone. Of a swap whose log has its name, the indexes get theirs."""
    names = set(storage.list(folder))
    for name in sorted(names):
        match = _INDEX.match(name.removesuffix(".swap"))
        if match is None:
            continue
        if f"{match[1]}.log" not in names:
            storage.remove(f"{folder}/{name}")
        elif name.endswith(".swap"):
            storage.rename(f"{folder}/{name}", f"{folder}/{match[0]}")
