"""Memory and start of a namespace: N files with one block each, three replicas, loaded from a
checkpoint into a fresh process.

    python bench/namespace_memory.py [--files 1000000]

Prints one JSON line: bytes of the checkpoint, seconds to write and to load it, RSS of a process
with the namespace loaded and every block reported by three DataNodes.
"""

import argparse
import gc
import json
import random
import subprocess
import sys
import tempfile
import time

from headrace.namespace.block_map import BlockMap
from headrace.namespace.blocks import BlockInfo
from headrace.namespace.checkpoint import image_path, load_newest, save
from headrace.namespace.datanodes import (
    DatanodeDescriptor,
    DatanodeIdentity,
    DatanodeTable,
    ReportedReplica,
    StorageInfo,
)
from headrace.namespace.filesystem import Namespace
from headrace.namespace.inodes import DirectoryInode, FileInode
from headrace.namespace.reports import full
from headrace.namespace.safemode import SafeMode
from headrace.namespace.settings import NamespaceSettings
from headrace.runtime.disk import DiskStorage

_PER_DIRECTORY = 1000


def rss_bytes() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def build(files: int) -> Namespace:
    ns = Namespace(NamespaceSettings())
    access = ns.access("hdfs", "supergroup", 0o644)
    now_ms = 1_700_000_000_000
    directory = ns.root
    for index in range(files):
        if index % _PER_DIRECTORY == 0:
            inode_id = ns.last_inode_id + 1
            name = f"date=2026-{index // _PER_DIRECTORY:05d}"
            directory = DirectoryInode(inode_id, name, access, now_ms)
            ns.add_inode(ns.root, directory, now_ms)
        time_ms = now_ms + index * 37
        name = f"events-{index % 64}-{index:020d}-{index + 99:020d}.parquet"
        file = FileInode(ns.last_inode_id + 1, name, access, time_ms, time_ms, 3, 134_217_728)
        ns.add_inode(directory, file, time_ms)
        block = BlockInfo(ns.last_block_id + 1, ns.generation_stamp + 1, 100_000 + index, file)
        ns.add_block(block)
        file.blocks = (block,)
    ns.last_offset = files
    return ns


def report_all(ns: Namespace, datanodes: int) -> None:
    table, safe_mode = DatanodeTable(), SafeMode(ns.settings)
    blocks = BlockMap(ns, table, safe_mode, random.Random(1))
    safe_mode.begin(len(ns.blocks))
    for index in range(datanodes):
        identity = DatanodeIdentity("10.0.0.1", "dn", f"dn{index}", 9866 + index, 9864, 9867)
        node = DatanodeDescriptor(identity, "/default-rack", "1")
        table.put(node)
        storage = node.storages["s"] = StorageInfo(node, f"DS-{index}", 1)
        replicas = [
            ReportedReplica(b.block_id, b.num_bytes, b.generation_stamp) for b in ns.blocks.values()
        ]
        for _ in full(blocks, storage, replicas):
            pass


def load(directory: str, datanodes: int) -> None:
    before = rss_bytes()
    started, started_cpu = time.perf_counter(), time.process_time()
    ns = load_newest(DiskStorage(), directory, NamespaceSettings(), lambda *_: None)
    load_s, load_cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    gc.collect()
    gc.freeze()
    loaded = rss_bytes()
    started, started_cpu = time.perf_counter(), time.process_time()
    report_all(ns, datanodes)
    report_s, report_cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    gc.collect()
    figures = {
        "inodes": len(ns.inodes),
        "blocks": len(ns.blocks),
        "load_s": round(load_s, 2),
        "load_cpu_s": round(load_cpu_s, 2),
        "report_s": round(report_s, 2),
        "report_cpu_s": round(report_cpu_s, 2),
        "rss_before_mb": before >> 20,
        "rss_loaded_mb": loaded >> 20,
        "rss_reported_mb": rss_bytes() >> 20,
    }
    print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--datanodes", type=int, default=3)
    parser.add_argument("--load", metavar="DIR", help="(the measured process)")
    asked = parser.parse_args()
    if asked.load:
        load(asked.load, asked.datanodes)
        return
    with tempfile.TemporaryDirectory() as directory:
        gc.disable()
        storage = DiskStorage()
        ns = build(asked.files)
        started = time.perf_counter()
        save(storage, directory, ns)
        write_s = time.perf_counter() - started
        size = storage.size(image_path(directory, ns.last_offset))
        del ns
        command = [sys.executable, __file__, "--load", directory]
        command += ["--datanodes", str(asked.datanodes)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        figures = {"files": asked.files, "image_mb": size >> 20, "write_s": round(write_s, 2)}
        print(json.dumps(figures | json.loads(done.stdout)))


if __name__ == "__main__":
    main()
