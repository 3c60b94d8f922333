"""hdfs-native as our commands, the pipeline and `headrace.fs` open it.

Owns: the settings that it gets from us. Must not know: what it is used for.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import hdfs_native

SETTINGS: Final = {"dfs.client.block.write.replace-datanode-on-failure.best-effort": "true"}
"""A writer goes on with the DataNodes that are left. By default hdfs-native (0.14.7) gives up where
nobody can stand in for one that died, as with three replicas on three DataNodes, Apache's too."""


def native_client(url: str) -> "hdfs_native.Client":
    import hdfs_native

    return hdfs_native.Client(url, SETTINGS)
