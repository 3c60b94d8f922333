"""Which function replays which record. The listing is the format of the log."""

from collections.abc import Callable
from typing import Any

from headrace.namespace.ops import (
    abandon_block,
    add_block,
    append,
    attributes,
    complete,
    create,
    delete,
    format_namespace,
    fsync,
    mkdirs,
    rename,
    update_pipeline,
)

REPLAYS: dict[str, Callable[[Any, Any], None]] = {
    "format": format_namespace.replay,
    "mkdir": mkdirs.replay,
    "add_file": create.replay,
    "add_block": add_block.replay,
    "commit_block": add_block.replay_commit,
    "close_file": complete.replay,
    "open_file": append.replay,
    "abandon_block": abandon_block.replay,
    "remove_block": abandon_block.replay,
    "set_generation_stamp": update_pipeline.replay_stamp,
    "update_block": fsync.replay,
    "reassign_lease": update_pipeline.replay_reassign,
    "delete": delete.replay,
    "rename": rename.replay,
    "set_replication": attributes.replay_replication,
    "set_permission": attributes.replay_permission,
    "set_owner": attributes.replay_owner,
    "set_times": attributes.replay_times,
}
