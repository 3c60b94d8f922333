"""Two hundred commands of Hadoop's tools, on our file system and on Apache's: the same answers.

Every line is run on both, in order; exit status, output and errors must be equal once addresses,
times and block names are blotted out. What is known to differ is named, with the reason. The client
is the spec: a line that differs and is not named is a mistake of ours.
"""

import contextlib
import gzip
import re
from pathlib import Path

import pytest
from tests.conftest import not_run
from tests.interop.hadoop_tools import HadoopTools
from tests.interop.hdfs.conftest import SETTINGS, FileSystem
from tests.interop.hdfs.real_hdfs import RealHdfs
from tests.interop.java_tools import JavaMissingError

from headrace.testing.filesystem import LocalFileSystem

pytestmark = [pytest.mark.java, pytest.mark.long]

Answer = tuple[str, int, str, str]

SCRIPT = """
root dfs -mkdir -p /t/d1/d2
root dfs -put {a} {b} /t/d1
root dfs -put {big} /t/big
root dfs -put {gz} /t/c.gz
root dfs -copyFromLocal -f {a} /t/d1/a.txt
root dfs -put {a} /t/d1/a.txt
root dfs -ls /t/d1
root dfs -ls -C -r /t/d1
root dfs -ls -S /t/d1
root dfs -ls -d /t/d1
root dfs -ls -R -q /t
root dfs -ls -e /t/d1
root dfs -count -q -v -t /t
root dfs -count -u -v /t
root dfs -count -e /t
root dfs -du -v /t
root dfs -du -s -x /t
root dfs -head /t/d1/a.txt
root dfs -tail /t/d1/b.txt
root dfs -text /t/c.gz
root dfs -getmerge /t/d1 {tmp}/merged
root dfs -stat %n,%b,%o,%r,%F,%a,%A,%u /t/d1/a.txt
root dfs -stat %n,%b,%o,%r,%F,%a,%A /t/d1
root dfs -test -d /t/d1
root dfs -test -z /t/d1/a.txt
root dfs -test -w /t/d1/a.txt
root dfs -cp -p /t/d1/a.txt /t/copy
root dfs -cp /t/d1/a.txt /t/copy
root dfs -cp -f /t/d1/a.txt /t/copy
root dfs -cp /t/none /t/x
root dfs -mv /t/copy /t/d1/d2
root dfs -mv /t/d1 /t/d1/d2/x
root dfs -mv /t/none /t/y
root dfs -mv /t/d1/d2/copy /nope/x
root dfs -touchz /t/empty
root dfs -touchz /t/d1/a.txt
root dfs -touch -c /t/nofile
root dfs -touch -a -t 20200101:000000 /t/empty
root dfs -appendToFile {b} /t/empty
root dfs -cat /t/empty
root dfs -appendToFile {b} /t/d1
root dfs -truncate -w 12 /t/empty
root dfs -cat /t/empty
root dfs -truncate 100 /t/empty
root dfs -concat /t/d1/a.txt /t/d1/b.txt
root dfs -ls /t/d1
root dfs -setrep -w 1 /t/d1/a.txt
root dfs -setrep 0 /t/d1/a.txt
root dfs -setrep 600 /t/d1/a.txt
root dfs -chmod -R 700 /t/d1
root dfs -chmod u+x,g-w /t/big
root dfs -chmod 9999 /t/big
root dfs -chown -R ann:staff /t/d1/d2
root dfs -chgrp people /t/big
root dfs -setfacl -m user:bob:rwx,default:user:bob:r-x /t/d1
root dfs -getfacl /t/d1
root dfs -getfacl -R /t/d1/d2
root dfs -setfacl -k /t/d1
root dfs -setfacl --set user::rwx,group::r--,other::--- /t/d1
root dfs -getfacl /t/d1
root dfs -setfacl -m user:bob:rwx /t/none
root dfs -setfattr -n user.x -v 1 /t/big
root dfs -setfattr -n bad.x -v 1 /t/big
root dfs -setfattr -n trusted.y -v 0x01 /t/big
root dfs -getfattr -d -e hex /t/big
root dfs -getfattr -n user.none /t/big
root dfs -setfattr -x user.none /t/big
root dfs -find /t -name *.txt -print
root dfs -find /t -iname BIG
root dfs -find /none
root dfs -checksum /t/d1/a.txt /t/big
root dfs -checksum /t/d1
root dfs -rmdir /t/d1
root dfs -rmdir --ignore-fail-on-non-empty /t/d1
root dfs -rm /t/d1
root dfs -rm /t/none
root dfs -rm -f /t/none
root dfs -D fs.trash.interval=10 -rm /t/empty
root dfs -expunge
root dfs -rm -r -skipTrash /t/d1/d2
root dfs -get /t/none {tmp}/x
root dfs -get /t/big {tmp}/big.back
root dfs -cat /t/d1
root dfs -cat /t/none
root dfs -mkdir /t/big/x
root dfs -mkdir /t/a:b
root dfs -mkdir /t/.snapshot
root dfs -mkdir /.reserved/x
root dfs -ls /.reserved
root dfs -ls /.reserved/raw/t
root dfs -createSnapshot /t s1
root dfsadmin -allowSnapshot /t
root dfsadmin -allowSnapshot /t
root dfsadmin -allowSnapshot /t/d1
root dfsadmin -allowSnapshot /t/big
root dfs -createSnapshot /t s1
root dfs -createSnapshot /t s1
root dfs -createSnapshot /t a/b
root dfs -rm -r -skipTrash /t/big
root dfs -ls /t/.snapshot
root dfs -ls /t/.snapshot/s1
root dfs -rm -r /t/.snapshot/s1
root dfs -cp /t/.snapshot/s1/big /t/big
root snapshotDiff /t s1 .
root snapshotDiff /t . s1
root snapshotDiff /t s1 none
root dfs -du -s /t
root dfs -count -q /t
root dfs -renameSnapshot /t s1 s2
root dfs -renameSnapshot /t none s3
root dfs -deleteSnapshot /t none
root lsSnapshottableDir
root dfsadmin -disallowSnapshot /t
root dfs -deleteSnapshot /t s2
root dfsadmin -disallowSnapshot /t
root dfsadmin -setQuota 2 /t
root dfsadmin -setQuota 0 /t
root dfsadmin -setQuota 5 /t/big
root dfsadmin -setQuota 5 /none
root dfs -mkdir /t/q1 /t/q2
root dfsadmin -clrQuota /t
root dfsadmin -setSpaceQuota 1 /t
root dfs -put {b} /t/sq
root dfsadmin -clrSpaceQuota /t
root dfsadmin -setSpaceQuota 1g -storageType SSD /t
root dfsadmin -safemode get
root dfsadmin -getDatanodeInfo 127.0.0.1:1
root dfsadmin -setBalancerBandwidth -5
root dfsadmin -metasave /x
root dfsadmin -listOpenFiles
root dfsadmin -refreshNodes
root storagepolicies -getStoragePolicy -path /t
root storagepolicies -setStoragePolicy -path /t -policy HOT
root storagepolicies -setStoragePolicy -path /t -policy NOPE
root storagepolicies -setStoragePolicy -path /none -policy HOT
root storagepolicies -unsetStoragePolicy -path /t
root storagepolicies -satisfyStoragePolicy -path /t
root ec -getPolicy -path /t
root ec -getPolicy -path /none
root groups root nosuchuser
root cacheadmin -listPools
root cacheadmin -addDirective -path /t/big -pool none
root fsck /t
root fsck /none
root fsck /t/big -files -blocks
root fsck / -list-corruptfileblocks
root fsck /t -blockId blk_1
root debug recoverLease -path /t/big -retries 1
root debug recoverLease -path /none
root dfs -mkdir -p /p/open /p/closed /p/sticky /p/ro
root dfs -chmod 777 /p/open
root dfs -chmod 700 /p/closed
root dfs -chmod 1777 /p/sticky
root dfs -put {a} /p/closed/f
root dfs -put {a} /p/ro/f
root dfs -put {a} /p/sticky/rootfile
eve dfs -ls /p/closed
eve dfs -cat /p/closed/f
eve dfs -put {a} /p/open/e
eve dfs -put {a} /p/ro/e
eve dfs -put {a} /p/sticky/e
bob dfs -rm /p/sticky/e
bob dfs -mv /p/sticky/e /p/sticky/b
bob dfs -rm -skipTrash /p/open/e
eve dfs -mkdir /p/open/ed
bob dfs -mkdir /p/open/ed/x
bob dfs -rm -r -skipTrash /p/open/ed
eve dfs -chown bob /p/sticky/e
eve dfs -chmod 600 /p/sticky/e
bob dfs -cat /p/sticky/e
bob dfs -chmod 777 /p/sticky/e
eve dfs -setrep 2 /p/ro/f
eve dfs -touch /p/ro/f
eve dfs -appendToFile {a} /p/ro/f
eve dfs -truncate 5 /p/ro/f
eve dfs -setfattr -n user.a -v 1 /p/ro/f
eve dfs -getfattr -d /p/ro/f
eve dfs -setfacl -m user:eve:rwx /p/ro/f
root dfs -setfacl -m user:eve:rwx,mask::r-- /p/ro/f
eve dfs -appendToFile {a} /p/ro/f
root dfs -setfacl -m mask::rwx /p/ro/f
eve dfs -appendToFile {a} /p/ro/f
root dfs -getfacl /p/ro/f
root dfs -chmod 640 /p/ro/f
root dfs -getfacl /p/ro/f
eve dfs -du -s /p
eve dfs -count /p
eve dfs -find /p
eve dfs -ls -R /p
eve dfsadmin -report
eve dfsadmin -safemode enter
eve dfsadmin -setQuota 5 /p
eve dfsadmin -allowSnapshot /p
eve dfsadmin -metasave x
eve dfsadmin -refreshNodes
eve dfsadmin -finalizeUpgrade
eve dfsadmin -rollEdits
eve dfsadmin -saveNamespace
eve dfsadmin -listOpenFiles
eve dfsadmin -setBalancerBandwidth 5
eve dfsadmin -restoreFailedStorage check
eve dfsadmin -refreshServiceAcl
eve dfsadmin -printTopology
eve dfsadmin -upgrade query
eve fsck /
eve storagepolicies -listPolicies
eve storagepolicies -setStoragePolicy -path /p/ro -policy HOT
eve cacheadmin -addPool x
eve lsSnapshottableDir
root dfsadmin -allowSnapshot /p/open
eve dfs -createSnapshot /p/open s
root dfs -createSnapshot /p/open s
eve dfs -ls /p/open/.snapshot
eve dfs -deleteSnapshot /p/open s
eve snapshotDiff /p/open s .
eve lsSnapshot /p/open
eve dfs -checksum /p/closed/f
eve dfs -checksum /p/sticky/rootfile
eve dfs -test -r /p/closed/f
eve dfs -test -w /p/ro/f
eve dfs -test -r /p/sticky/rootfile
"""
"""A user and what he types."""

KNOWN = {
    "ls /.reserved$": "the reserved directory has no listing",
    "mkdir /.reserved/x": "so the client looks for it in vain before it asks",
    "allowSnapshot /t/big": "refused as by Apache, in one line",
    "snapshotDiff /t . s1": "the same lines in another order",
    "setQuota 5 /t/big": "refused as by Apache, without quotes",
    "put .* /t/sq": "bytes of a quota are told without their megabytes",
    "setSpaceQuota 1g -storageType": "quotas by storage type are refused",
    "metasave /x": "a plain name is wanted",
    "setStoragePolicy -path /none": "File does not exist",
    "satisfyStoragePolicy": "the satisfier is not served",
    "fsck /t|fsck /$": "no section on erasure coding; more digits of an average",
    "appendToFile .* /t/d1$": "Path is not a file",
    "saveNamespace|restoreFailedStorage": "refused without, or with another, name of the operation",
    "listPolicies": "HOT alone",
    "lsSnapshot ": "snapshots are numbered from 1",
    "du -s /t|count -q /t": "a file that was renamed under a snapshot is counted once",
    "setrep 600|setrep 0": "the caller's address beside the path",
}
"""By a part of the command or of our answer."""


def blot(text: str, dfs: FileSystem) -> str:
    text = text.replace(dfs.address, "NAMENODE").replace(dfs.http_address, "HTTP")
    for pattern, word in (
        (r"\b(127\.0\.0\.1|localhost):\d+", "ADDRESS"),
        (r"localhost", "HOST"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?", "TIME"),
        (r"\w{3} \w{3} \d+ \d\d:\d\d:\d\d UTC \d{4}", "TIME"),
        (r"blk_-?\d+(_\d+)?", "BLOCK"),
        (r"BP-[\d.-]+", "POOL"),
        (r"DS-[\w-]+", "STORAGE"),
        (r"in \d+ milliseconds", "AT ONCE"),
        (r"inode \d+", "INODE"),
        (r"\s+at (org|java)\..*", ""),
    ):
        text = re.sub(pattern, word, text)
    # Where Apache tells a stack, its first line ends with one more newline.
    return re.sub(r"\n+", "\n", text).rstrip()


def run(target: FileSystem, folder: Path) -> list[Answer]:
    places = {"tmp": folder, "a": folder / "a.txt", "b": folder / "b.txt"}
    places |= {"gz": folder / "c.gz", "big": folder / "big"}
    answers: list[Answer] = []
    with target as dfs, contextlib.closing(HadoopTools()) as tools:
        settings = {
            "fs.defaultFS": dfs.url,
            "dfs.namenode.http-address": dfs.http_address,
            "dfs.blocksize": SETTINGS["dfs.blocksize"],
            "dfs.replication": "3",
        }
        for line in filter(None, SCRIPT.splitlines()):
            for name in ("merged", "x", "big.back"):
                (folder / name).unlink(missing_ok=True)
            user, tool, *words = line.format(**places).split()
            told = tools.run(tool, *words, settings=settings, user=user, timeout_s=90)
            # How full the disks are is not compared.
            out = "" if "-report" in line or "-df" in line else blot(told.stdout, dfs)
            answers.append((line, told.status, out, blot(told.stderr, dfs)))
    return answers


def is_known(ours: Answer) -> bool:
    return any(
        re.search(pattern, part, re.MULTILINE)
        for pattern in KNOWN
        for part in (ours[0], ours[2], ours[3])
    )


def test_the_same_answers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n" * 1000)
    (tmp_path / "b.txt").write_text("world\n" * 10)
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"zipped text\n" * 5))
    (tmp_path / "big").write_bytes(bytes(range(256)) * 4096 * 3 + b"tail")
    try:
        apache = run(RealHdfs(datanodes=3, settings=SETTINGS), tmp_path)
    except JavaMissingError as missing:
        not_run(str(missing))
    ours = run(LocalFileSystem(datanodes=3, settings=SETTINGS), tmp_path)
    assert len(ours) == len(apache) > 200
    differ = [(mine, its) for mine, its in zip(ours, apache, strict=True) if mine != its]
    surprising = [pair for pair in differ if not is_known(pair[0])]
    assert [f"{mine}\n{its}" for mine, its in surprising] == []
