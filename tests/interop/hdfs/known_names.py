"""Where our NameNode is known to answer random calls otherwise than Apache's, and why.

Whoever takes a rule away sees the difference within some hundred seeds. What differs and is not
here is a mistake of ours. Wider differences are left out of `random_names`.
"""

from collections.abc import Callable
from typing import NamedTuple

from tests.interop.hdfs.random_names import Call

Blotted = tuple[str, ...]
_PATHS = ("src", "dst", "path", "trg", "snapshotRoot", "filename", "link")
_ACCESS = "org.apache.hadoop.security.AccessControlException"
_SNAPSHOT = "org.apache.hadoop.hdfs.protocol.SnapshotException"


class Known(NamedTuple):
    why: str
    holds: Callable[[Call, Blotted, Blotted], bool]
    parts: bool = False
    """The trees part here: the rest of the seed is not compared."""


def paths_of(call: Call) -> list[str]:
    fields = call.request.DESCRIPTOR.fields_by_name
    found = [str(getattr(call.request, name)) for name in _PATHS if name in fields]
    return found + [str(one) for one in getattr(call.request, "paths", ())]


def _is_refused(mine: Blotted, other: Blotted) -> bool:
    return mine[0] == "refused" == other[0]


def _trips(call: Call, _: Blotted, other: Blotted) -> bool:
    odd = any(not path.startswith("/") or not path.strip("/") for path in paths_of(call))
    return odd and other[0] == "refused" and other[1].startswith("java.lang.")


def _leads_nowhere(call: Call, mine: Blotted, other: Blotted) -> bool:
    asked = ("allowSnapshot", "disallowSnapshot", "getSnapshotListing", "getLinkTarget")
    return call.method in asked and _is_refused(mine, other)


def _is_hidden(call: Call, mine: Blotted, other: Blotted) -> bool:
    return call.method == "getBlockLocations" and _is_refused(mine, other) and mine[1] == _ACCESS


def _is_bad_pool(call: Call, mine: Blotted, other: Blotted) -> bool:
    return call.method.endswith("CachePool") and _is_refused(mine, other)


def _is_empty(call: Call, mine: Blotted, other: Blotted) -> bool:
    return call.method == "getSnapshottableDirListing" and len(mine) == 1 and len(other) == 2


def _moves_to_root(call: Call, mine: Blotted, other: Blotted) -> bool:
    is_rename = call.method in ("rename", "rename2")
    return is_rename and mine[0] == "answered" and other == ("refused", _SNAPSHOT)


def _changed_later(call: Call, mine: Blotted, other: Blotted) -> bool:
    root_alone = {
        "diffReport.modifiedEntries x 1",
        "diffReport.modifiedEntries[0].fullpath = b''",
    }
    is_listing = call.method == "getSnapshotDiffReportListing"
    return is_listing and "diffReport.modifiedEntries x 0" in mine and root_alone <= {*other}


def was_modified_later(call: object, mine: Blotted, other: Blotted) -> bool:
    ours, its = ([line for line in one if "modification_time" not in line] for one in (mine, other))
    return ours == its and "/.snapshot" in str(call)


def _replaces_anothers(call: Call, mine: Blotted, other: Blotted) -> bool:
    return call.method == "rename2" and mine == ("refused", _ACCESS) and other[0] == "answered"


KNOWN = (
    Known("a path that is not absolute, and a rename of the root, trip an assertion there", _trips),
    Known("a path below a file or in .reserved, or .snapshot: another refusal", _leads_nowhere),
    Known("nothing is told of what is behind a directory that may not be searched", _is_hidden),
    Known("fields of a cache pool are looked at in another order", _is_bad_pool),
    Known("the directory itself as changed between two snapshots: it was so later", _changed_later),
    Known(
        "a directory in a snapshot was last modified when it was made; there as it is by now",
        was_modified_later,
    ),
    Known("no directory of the caller's has snapshots: no list instead of an empty one", _is_empty),
    Known(
        "a snapshottable directory may be moved to the root: Apache's root counts as snapshottable",
        _moves_to_root,
        parts=True,
    ),
    Known(
        "in a sticky directory nobody renames over another's file: there the sticky bit guards the "
        "source alone",
        _replaces_anothers,
        parts=True,
    ),
)


def known(call: Call, mine: Blotted, other: Blotted) -> Known | None:
    return next((one for one in KNOWN if one.holds(call, mine, other)), None)
