"""A refusal as WebHDFS tells it: an HTTP status, and Java's exception in JSON."""

import json

from headrace.wire.hadoop import exceptions as java
from headrace.wire.hadoop.exceptions import RemoteError

_STATUSES = {
    java.FILE_NOT_FOUND: 404,
    java.ILLEGAL_ARGUMENT: 400,
    java.HADOOP_ILLEGAL_ARGUMENT: 400,
    java.INVALID_PATH: 400,
    java.UNSUPPORTED_OPERATION: 400,
}


def web_status(error: RemoteError) -> int:
    """What is no word of HTTP's is 403, as IOException is with Apache's."""
    return _STATUSES.get(error.class_name, 403)


def web_body(error: RemoteError) -> bytes:
    return json.dumps(
        {
            "RemoteException": {
                "exception": error.class_name.rpartition(".")[2].rpartition("$")[2],
                "javaClassName": error.class_name,
                "message": error.message,
            }
        }
    ).encode()
