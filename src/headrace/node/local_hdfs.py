"""The file system of a local cluster: when it is ready, its first directories, its clients' files.

Owns: what `up` does with a file system beyond keeping its processes running.
Must not know: processes, ports.

Ready: out of safe mode with every DataNode live. Then `/tmp` (1777) and `/user/NAME` are made, if
they are not there, by the user who runs the NameNode and is its superuser.
"""

import getpass
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from headrace.base.errors import HeadraceError
from headrace.node.local_answers import health_of, http_json
from headrace.node.local_files import Layout, replace_text
from headrace.node.local_plan import REPLICAS_MAX, ClusterPlan, NameNodePlan

MKDIRS_TIMEOUT_MS = 10_000
CORE_SITE, HDFS_SITE = "core-site.xml", "hdfs-site.xml"


def reason_to_wait(plan: ClusterPlan) -> str:
    """Why the file system is not ready yet; empty once it is."""
    if plan.namenode is None:
        return ""
    health = health_of(plan.namenode.metrics)
    if health is None:
        return f"{plan.namenode.name} does not answer"
    live = int(health["live_datanodes"])
    if live < len(plan.datanodes):
        return f"{live} of {len(plan.datanodes)} DataNodes are live"
    if health.get("name_dir_full"):
        return f"the file system is in safe mode: {health['safe_mode_tip']}"
    if health["safe_mode"]:
        return (
            "the file system is in safe mode, since too few of its blocks were reported; "
            "--set dfs.namenode.safemode.threshold-pct=0 starts it without them"
        )
    return ""


def make_directories(namenode: NameNodePlan) -> None:
    """`/tmp` for all, a home for the user; what exists stays as it is."""
    user = getpass.getuser()
    for path, permission in (("/tmp", "1777"), (f"/user/{user}", "755")):
        _mkdirs(namenode, path, permission, user)


def _mkdirs(namenode: NameNodePlan, path: str, permission: str, user: str) -> None:
    asked = f"/webhdfs/v1{quote(path)}?op=MKDIRS&permission={permission}&user.name={quote(user)}"
    answer = http_json("PUT", namenode.metrics, asked, MKDIRS_TIMEOUT_MS)
    if answer is None:
        raise HeadraceError(f"{namenode.name} did not answer when {path} was to be made")
    status, body = answer
    if status != 200 or not body.get("boolean"):
        said = body.get("RemoteException", body)
        reason = said.get("message", said) if isinstance(said, dict) else said
        raise HeadraceError(f"{path} can't be made in the file system: {reason}")


def write_hadoop_configuration(
    layout: Layout, plan: ClusterPlan, settings: Mapping[str, str]
) -> None:
    """`conf/core-site.xml` and `conf/hdfs-site.xml`, for HADOOP_CONF_DIR; none without files."""
    core, site = layout.configuration / CORE_SITE, layout.configuration / HDFS_SITE
    if plan.namenode is None:
        for path in (core, site):
            path.unlink(missing_ok=True)
        return
    _write(core, {"fs.defaultFS": plan.namenode.url})
    known = {key: value for key, value in settings.items() if key.startswith("dfs.")}
    addresses = {
        "dfs.namenode.rpc-address": plan.namenode.listen,
        "dfs.namenode.http-address": plan.namenode.metrics,
    }
    if len(plan.datanodes) <= REPLICAS_MAX:
        # Nobody could stand in for a DataNode that dies under an appending or flushing writer.
        addresses["dfs.client.block.write.replace-datanode-on-failure.best-effort"] = "true"
    _write(site, {**known, **addresses})


def _write(path: Path, properties: Mapping[str, str]) -> None:
    lines = ['<?xml version="1.0"?>', "<configuration>"]
    lines += [
        f"  <property><name>{_escaped(key)}</name><value>{_escaped(value)}</value></property>"
        for key, value in properties.items()
    ]
    replace_text(path, "\n".join([*lines, "</configuration>", ""]))


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
