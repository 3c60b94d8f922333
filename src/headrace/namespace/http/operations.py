"""WebHDFS's operations that are one question and one answer, as tables by HTTP method.

Owns: names of operations and of their parameters. Must not know: callers, redirects.
"""

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any

from headrace.base.web import WebResponse
from headrace.namespace import requests as asked
from headrace.namespace.http import json_shapes as shapes
from headrace.namespace.http import snapshot_shapes
from headrace.namespace.http.parameters import Parameters, invalid
from headrace.namespace.values import XAttr
from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

Shown = Callable[[Any], WebResponse]
Operation = tuple[Callable[[str, Parameters], Any], Shown]
"""What is asked of the namespace, and how its result is shown."""

_XATTR_NAMESPACES = ("user", "trusted", "security", "system", "raw")


def done(_: Any) -> WebResponse:
    return WebResponse(200)


def boolean(value: Any) -> WebResponse:
    return shapes.answer({"boolean": bool(value)})


def parse_xattr(name: str, value: bytes = b"") -> XAttr:
    namespace, dot, rest = name.partition(".")
    if not dot or namespace.lower() not in _XATTR_NAMESPACES or not rest:
        raise RemoteError(
            java.HADOOP_ILLEGAL_ARGUMENT,
            "An XAttr name must be prefixed with "
            "user/trusted/security/system/raw, followed by a '.'",
        )
    return XAttr(_XATTR_NAMESPACES.index(namespace.lower()), rest, value)


def xattr_name(xattr: XAttr) -> str:
    return f"{_XATTR_NAMESPACES[xattr.namespace]}.{xattr.name}"


def decode_value(text: str) -> bytes:
    """`"text"`, `0x…` in hex or `0s…` in base 64, as XAttrCodec reads them."""
    try:
        if text[:2].lower() == "0x":
            return bytes.fromhex(text[2:])
        if text[:2].lower() == "0s":
            return base64.b64decode(text[2:], validate=True)
    except (ValueError, binascii.Error):
        raise invalid(f"not a value of an attribute: {text}") from None
    return text[1:-1].encode() if len(text) >= 2 and text[0] == text[-1] == '"' else text.encode()


def encode_value(value: bytes, encoding: str) -> str:
    match encoding.lower():
        case "text":
            return f'"{value.decode("utf-8", "replace")}"'
        case "base64":
            return "0s" + base64.b64encode(value).decode()
        case _:
            return "0x" + value.hex()


def _summary(value: Any) -> WebResponse:
    return shapes.answer({"ContentSummary": shapes.content_summary(value)})


def _quota(value: Any) -> WebResponse:
    return shapes.answer({"QuotaUsage": shapes.quota_usage(value)})


def _acl(value: Any) -> WebResponse:
    return shapes.answer({"AclStatus": shapes.acl_status(value)})


def _refused(feature: str) -> Operation:
    def refuse(_: str, __: Parameters) -> Any:
        raise RemoteError(java.UNSUPPORTED_OPERATION, f"{feature} is not served by this NameNode")

    return refuse, done


_QUOTA_UNCHANGED = 2**63 - 1
_ERASURE_CODING = _refused("Erasure coding")
_TOKENS = _refused("The delegation token")

GET: dict[str, Operation] = {
    "GETCONTENTSUMMARY": (lambda path, _: asked.GetContentSummary(path), _summary),
    "GETQUOTAUSAGE": (lambda path, _: asked.GetQuotaUsage(path), _quota),
    "GETACLSTATUS": (lambda path, _: asked.GetAclStatus(path), _acl),
    "CHECKACCESS": (
        lambda path, p: asked.CheckAccess(path, _action(p.required("fsaction"))),
        done,
    ),
    "GETLINKTARGET": (
        lambda path, _: asked.GetLinkTarget(path),
        lambda target: shapes.answer({"Path": target}),
    ),
    "GET_BLOCK_LOCATIONS": (
        lambda path, p: asked.GetBlockLocations(
            path, p.number("offset", 0), p.number("length", _QUOTA_UNCHANGED)
        ),
        lambda located: shapes.answer({"LocatedBlocks": shapes.located_blocks(located)}),
    ),
    "GETFILEBLOCKLOCATIONS": (
        lambda path, p: asked.GetBlockLocations(
            path, p.number("offset", 0), p.number("length", _QUOTA_UNCHANGED)
        ),
        lambda located: shapes.answer(
            {"BlockLocations": {"BlockLocation": shapes.block_locations(located)}}
        ),
    ),
    "LISTXATTRS": (
        lambda path, _: asked.ListXAttrs(path),
        lambda found: shapes.answer(
            {"XAttrNames": json.dumps([xattr_name(xattr) for xattr in found])}
        ),
    ),
    "GETSTORAGEPOLICY": (
        lambda path, _: asked.GetStoragePolicy(path),
        lambda policy: shapes.answer(
            {"BlockStoragePolicy": snapshot_shapes.storage_policy(policy)}
        ),
    ),
    "GETSNAPSHOTDIFF": (
        lambda path, p: asked.GetSnapshotDiffReport(
            path, p.text("oldsnapshotname"), p.text("snapshotname")
        ),
        lambda report: shapes.answer({"SnapshotDiffReport": snapshot_shapes.difference(report)}),
    ),
    "GETSNAPSHOTDIFFLISTING": (
        lambda path, p: asked.GetSnapshotDiffReportListing(
            path,
            p.text("oldsnapshotname"),
            p.text("snapshotname"),
            p.text("snapshotdiffstartpath"),
            p.number("snapshotdiffindex", -1),
        ),
        lambda part: shapes.answer(
            {"SnapshotDiffReportListing": snapshot_shapes.difference_part(part)}
        ),
    ),
    "GETSNAPSHOTTABLEDIRECTORYLIST": (
        lambda _, __: asked.GetSnapshottableDirListing(),
        lambda found: shapes.answer(
            {"SnapshottableDirectoryList": snapshot_shapes.snapshottable(found)}
        ),
    ),
    "GETSNAPSHOTLIST": (
        lambda path, _: asked.GetSnapshotListing(path),
        lambda found: shapes.answer({"SnapshotList": snapshot_shapes.snapshots(found)}),
    ),
}

PUT: dict[str, Operation] = {
    "MKDIRS": (
        lambda path, p: asked.Mkdirs(path, p.mode("permission", 0o755)),
        boolean,
    ),
    "CREATESYMLINK": (
        lambda path, p: asked.CreateSymlink(
            p.required("destination"), path, 0o777, p.flag("createparent", False)
        ),
        done,
    ),
    "SETREPLICATION": (
        lambda path, p: asked.SetReplication(path, _at_least_one(p, "replication", 3)),
        boolean,
    ),
    "SETOWNER": (
        lambda path, p: asked.SetOwner(path, *_owner_or_group(p)),
        done,
    ),
    "SETPERMISSION": (
        lambda path, p: asked.SetPermission(path, p.mode("permission", 0o755)),
        done,
    ),
    "SETTIMES": (
        lambda path, p: asked.SetTimes(
            path, p.number("modificationtime", -1), p.number("accesstime", -1)
        ),
        done,
    ),
    "MODIFYACLENTRIES": (
        lambda path, p: asked.ModifyAclEntries(path, shapes.parse_acl(p.required("aclspec"), True)),
        done,
    ),
    "REMOVEACLENTRIES": (
        lambda path, p: asked.RemoveAclEntries(
            path, shapes.parse_acl(p.required("aclspec"), False)
        ),
        done,
    ),
    "REMOVEDEFAULTACL": (lambda path, _: asked.RemoveDefaultAcl(path), done),
    "REMOVEACL": (lambda path, _: asked.RemoveAcl(path), done),
    "SETACL": (
        lambda path, p: asked.SetAcl(path, shapes.parse_acl(p.required("aclspec"), True)),
        done,
    ),
    "SETXATTR": (
        lambda path, p: asked.SetXAttr(
            path,
            parse_xattr(p.required("xattr.name"), decode_value(p.text("xattr.value"))),
            _xattr_flags(p.text("flag")),
        ),
        done,
    ),
    "REMOVEXATTR": (
        lambda path, p: asked.RemoveXAttr(path, parse_xattr(p.required("xattr.name"))),
        done,
    ),
    "SETSTORAGEPOLICY": (
        lambda path, p: asked.SetStoragePolicy(path, p.required("storagepolicy")),
        done,
    ),
    "ALLOWSNAPSHOT": (lambda path, _: asked.AllowSnapshot(path), done),
    "DISALLOWSNAPSHOT": (lambda path, _: asked.DisallowSnapshot(path), done),
    "CREATESNAPSHOT": (
        lambda path, p: asked.CreateSnapshot(path, p.text("snapshotname")),
        lambda made: shapes.answer({"Path": made}),
    ),
    "RENAMESNAPSHOT": (
        lambda path, p: asked.RenameSnapshot(
            path, p.required("oldsnapshotname"), p.required("snapshotname")
        ),
        done,
    ),
    "SETQUOTA": (
        lambda path, p: asked.SetQuota(
            path,
            p.number("namespacequota", _QUOTA_UNCHANGED),
            p.number("storagespacequota", _QUOTA_UNCHANGED),
        ),
        done,
    ),
    "SETQUOTABYSTORAGETYPE": (
        lambda path, p: asked.SetQuota(
            path,
            _QUOTA_UNCHANGED,
            p.number("storagespacequota", _QUOTA_UNCHANGED),
            _storage_type(p.required("storagetype")),
        ),
        done,
    ),
    "SATISFYSTORAGEPOLICY": _refused("The storage policy satisfier"),
    "ENABLEECPOLICY": _ERASURE_CODING,
    "DISABLEECPOLICY": _ERASURE_CODING,
    "SETECPOLICY": _ERASURE_CODING,
    "RENEWDELEGATIONTOKEN": _TOKENS,
    "CANCELDELEGATIONTOKEN": _TOKENS,
}

POST: dict[str, Operation] = {
    "CONCAT": (
        lambda path, p: asked.Concat(path, tuple(p.required("sources").split(","))),
        done,
    ),
    "UNSETSTORAGEPOLICY": (lambda path, _: asked.UnsetStoragePolicy(path), done),
    "UNSETECPOLICY": _ERASURE_CODING,
}

DELETE: dict[str, Operation] = {
    "DELETE": (lambda path, p: asked.Delete(path, p.flag("recursive", False)), boolean),
    "DELETESNAPSHOT": (
        lambda path, p: asked.DeleteSnapshot(path, p.required("snapshotname")),
        done,
    ),
}

TABLES: dict[str, dict[str, Operation]] = {
    "GET": GET,
    "PUT": PUT,
    "POST": POST,
    "DELETE": DELETE,
}


def _at_least_one(parameters: Parameters, name: str, default: int) -> int:
    number = parameters.number(name, default)
    if number < 1:
        raise invalid(f"Invalid parameter range: {name} = {number} < 1")
    return number


def _owner_or_group(parameters: Parameters) -> tuple[str | None, str | None]:
    owner, group = parameters.text("owner"), parameters.text("group")
    if not owner and not group:
        raise invalid("Both owner and group are empty.")
    return owner or None, group or None


def _storage_type(text: str) -> int:
    for number in range(1, 7):
        if shapes.storage_type(number) == text.upper():
            return number
    raise invalid(f'Invalid value for webhdfs parameter "storagetype": {text}')


def _action(text: str) -> int:
    if len(text) != 3 or set(text) - set("rwx-"):
        raise invalid(f'Invalid value for webhdfs parameter "fsaction": {text}')
    return sum(bit for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if letter in text)


def _xattr_flags(text: str) -> int:
    flags = {"": 3, "CREATE": 1, "REPLACE": 2}
    return sum({flags.get(word, 0) for word in text.upper().split(",")})
