"""The chapters of the file system: files go in and out, nodes die, blocks explained."""

import hashlib
import json
import random
import time
import urllib.error
import urllib.request
from pathlib import Path

from rich.syntax import Syntax

from demo.stage import Stage

FOLDER = "/demo"
FILE_BYTES = 24 * 1024 * 1024
BLOCK_BYTES = 8 * 1024 * 1024

_CODE = """\
client = hdfs_native.Client("%s")
with client.create("%s", hdfs_native.WriteOptions(block_size=%d)) as file:
    file.write(content)"""


def files_go_in_and_out(stage: Stage) -> None:
    import hdfs_native

    stage.title("Files go in and out", "An HDFS client without a JVM; three copies of every block.")
    content = random.Random(7).randbytes(FILE_BYTES)
    path = f"{FOLDER}/random.bin"
    stage.headrace("fs", "mkdir", FOLDER, *stage.here)
    code = _CODE % (stage.fs, path, BLOCK_BYTES)
    stage.console.print(Syntax(code, "python", background_color="default", word_wrap=True))
    client = hdfs_native.Client(stage.fs)
    began = time.monotonic()
    with client.create(path, hdfs_native.WriteOptions(block_size=BLOCK_BYTES)) as writer:
        writer.write(content)
    wrote_s = time.monotonic() - began
    stage.done(f"{FILE_BYTES >> 20} MiB written three times over in {wrote_s:.2f} s")
    began = time.monotonic()
    with client.read(path) as reader:
        read = reader.read()
    stage.check(read == content, f"{path} came back different")
    stage.done(f"and read back the same in {time.monotonic() - began:.2f} s")
    _round_trip(stage, content)
    stage.headrace("fs", "ls", FOLDER, *stage.here)
    stage.headrace("fs", "report", *stage.here)


def _round_trip(stage: Stage, content: bytes) -> None:
    """By our own command line: put a local file, get it back."""
    local, copy = stage.data / "story.bin", stage.data / "story-copy.bin"
    local.write_bytes(content[: 1024 * 1024])
    stage.headrace("fs", "put", str(local), f"{FOLDER}/story.bin", *stage.here)
    stage.headrace("fs", "get", f"{FOLDER}/story.bin", str(copy), *stage.here)
    stage.check(_digest(local) == _digest(copy), "the file that was put and got is another")
    stage.done(f"put and got: sha256 {_digest(copy)[:16]}… both times")


def the_web_knows(stage: Stage) -> None:
    stage.title("The web knows too", "WebHDFS, metrics and health, for whoever has only HTTP.")
    address = f"{stage.web}/webhdfs/v1{FOLDER}?op=LISTSTATUS"
    stage.command(f"curl '{address}'")
    with urllib.request.urlopen(address, timeout=10) as answer:
        listed = json.loads(answer.read())["FileStatuses"]["FileStatus"]
    names = sorted(status["pathSuffix"] for status in listed)
    stage.check(names == ["random.bin", "story.bin"], f"WebHDFS lists {names}")
    for status in listed:
        stage.say(f"  {status['pathSuffix']:<12} {status['length']:>10} bytes")
    for node in stage.cluster["nodes"]:
        with urllib.request.urlopen(f"http://{node['metrics']}/health", timeout=10) as answer:
            health = json.loads(answer.read())
        stage.check(health["status"] == "ok", f"{node['name']} says {health}")
        stage.say(f"  http://{node['metrics']}/health   {node['name']}: {health['status']}")


def file_nodes_are_killed(stage: Stage) -> None:
    import hdfs_native

    stage.title("A DataNode and the NameNode are killed", "Not a byte and not a name is lost.")
    stage.kill("datanode-2")
    stage.kill("namenode-1")
    _await_live(stage)
    client = hdfs_native.Client(stage.fs)
    with client.read(f"{FOLDER}/random.bin") as reader:
        read = reader.read()
    stage.check(
        read == random.Random(7).randbytes(FILE_BYTES), "after the crash the file is another"
    )
    stage.done(f"after both crashes all {FILE_BYTES >> 20} MiB are read back the same")


def blocks_on_disk(stage: Stage) -> None:
    stage.title("Blocks on disk", "Plain files with a checksum file beside each, as HDFS has them.")
    blocks = sorted((stage.data / "datanode-1").rglob("blk_*"))
    whole = [path for path in blocks if not path.name.endswith(".meta")]
    stage.check(len(whole) == 4, f"datanode-1 holds {len(whole)} blocks, not 4")
    for path in blocks:
        stage.say(f"  {path.relative_to(stage.data)}  {path.stat().st_size} bytes")
    held = sum(path.stat().st_size for path in whole)
    stage.check(held == FILE_BYTES + 1024 * 1024, f"they hold {held} bytes")
    stage.done("four blocks on each DataNode; a .meta is a CRC32C for every 512 bytes")


def _await_live(stage: Stage) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{stage.web}/health", timeout=10) as answer:
                health = json.loads(answer.read())
        except urllib.error.HTTPError:
            # 503 while blocks are missing: their DataNodes' reports are on the way.
            time.sleep(0.05)
            continue
        if not health["safe_mode"] and health["live_datanodes"] == 3:
            return
        time.sleep(0.05)
    stage.check(False, "the DataNodes did not find the NameNode again")


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
