"""The log of the cluster's metadata: its folder, its id and its record codec.

Owns: `open_metadata_log` and `METADATA_CODEC`. The folder is `__cluster_metadata-0`, as Kafka's,
and Kafka's dump-log tool reads it with `--cluster-metadata-decoder`.
"""

from headrace.base.clock import Clock
from headrace.base.ids import METADATA_TOPIC_ID
from headrace.base.storage import Storage
from headrace.cluster.topic_names import CLUSTER_METADATA_TOPIC
from headrace.log import checkpoints
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import PartitionLog
from headrace.quorum.state_machine import RecordCodec
from headrace.wire.kafka.metadata_records import decode_metadata_record, encode_metadata_record

METADATA_CODEC = RecordCodec(encode_metadata_record, decode_metadata_record)


def metadata_log_path(directory: str) -> str:
    return f"{directory}/{CLUSTER_METADATA_TOPIC}-0"


def open_metadata_log(
    storage: Storage, directory: str, clock: Clock, files: FileBudget
) -> PartitionLog:
    """Open or create it. Always scanned whole: it is small, and everything depends on it.

    No retention deletes anything of it: what goes, goes because snapshots hold it. Nobody reads
    a segment longer than a moment, so its files go at once.
    """
    path = metadata_log_path(directory)
    _write_topic_id(storage, path)
    log = PartitionLog.open(
        storage,
        path,
        CLUSTER_METADATA_TOPIC,
        0,
        LogConfig(retention_ms=-1, retention_bytes=-1, delete=False, file_delete_delay_ms=0),
        clock,
        topic_id=METADATA_TOPIC_ID,
        files=files,
    )
    # The folder's own name must outlive a power failure as surely as what is in it.
    storage.sync_directory(directory)
    return log


def _write_topic_id(storage: Storage, path: str) -> None:
    """Before anything else, and synced: a log without its id would not open again."""
    storage.make_directory(path)
    metadata = f"{path}/{checkpoints.PARTITION_METADATA}"
    if not storage.exists(metadata):
        checkpoints.write_topic_id(storage, metadata, METADATA_TOPIC_ID, sync=True)
