"""Checkpoints: image + edits behind it = the live namespace; damage is refused, never misread."""

from random import Random

import pytest

from headrace.base.errors import CorruptionError
from headrace.namespace import checkpoint, requests
from headrace.namespace.image import ImageError, read_image, write_image
from headrace.namespace.journal import decode_edit, encode_edit
from headrace.namespace.requests import (
    AllowSnapshot,
    Append,
    CreateSnapshot,
    CreateSymlink,
    Delete,
    Mkdirs,
    ModifyAclEntries,
    Rename2,
    SetPermission,
    SetQuota,
    SetXAttr,
    Truncate,
)
from headrace.namespace.values import AclEntry, XAttr
from headrace.testing.disk import SimulatedDisk
from headrace.testing.namenode import BLOCK_SIZE, SimulatedNameNode, durable_state


def full_of_everything() -> SimulatedNameNode:
    cluster = SimulatedNameNode(datanodes=3)
    cluster.write("/d/a", BLOCK_SIZE, 100)
    cluster.write("/d/sub/b", 200)
    cluster.write("/e/c", 7)
    cluster.write("/e/open-again", 7)
    cluster.write("/e/cut", 70)
    cluster.ask(CreateSymlink("/d/a", "/e/link", 0o755, True))
    cluster.ask(ModifyAclEntries("/e", (AclEntry(0, 0, 7, "ann"), AclEntry(0, 1, 5, "bob"))))
    cluster.ask(SetXAttr("/e/c", XAttr(0, "colour", b"\x00red"), 1))
    cluster.ask(SetQuota("/e", 100, 10**12))
    cluster.ask(requests.SetTimes("/d", -1, 12345))
    cluster.ask(AllowSnapshot("/d"))
    cluster.ask(CreateSnapshot("/d", "s1"))
    cluster.ask(SetPermission("/d/a", 0o600))
    cluster.ask(Rename2("/d/sub", "/moved"))
    cluster.ask(Delete("/moved/b", False))
    cluster.ask(CreateSnapshot("/d", "s2"))
    cluster.ask(Delete("/d/a", False))
    cluster.ask(Append("/e/open-again", "appender"))
    assert cluster.ask(Truncate("/e/cut", 35, "cutter")) is False
    cluster.create("/e/unwritten", "another")
    located = cluster.add_block("/e/unwritten", "another")
    cluster.ask(requests.Fsync("/e/unwritten", "another", 5))
    assert located.locations
    cluster.ask(Mkdirs("/z" * 20, 0o711))
    cluster.ask(requests.AddCachePool("pool", owner="ann", limit_bytes=10**12))
    cluster.ask(requests.AddCacheDirective("/e", "pool", 2))
    return cluster


def test_an_image_is_the_namespace() -> None:
    cluster = full_of_everything()
    data = b"".join(write_image(cluster.ns))
    again = read_image(memoryview(data), cluster.settings)
    assert durable_state(again) == durable_state(cluster.ns)
    assert again.last_offset == cluster.ns.last_offset
    twice = read_image(memoryview(b"".join(write_image(again))), cluster.settings)
    assert durable_state(twice) == durable_state(cluster.ns)
    cut = again.file(cluster.ns.root.children["e"].children["cut"].inode_id)  # type: ignore[attr-defined]
    assert cut.last_block is not None
    assert cut.last_block.uc is not None
    assert cut.last_block.uc.truncate_length == 35


def test_damage_anywhere_is_refused() -> None:
    cluster = SimulatedNameNode(datanodes=1)
    cluster.write("/d/a", 100, replication=1)
    cluster.ask(SetXAttr("/d/a", XAttr(0, "n", b"v"), 1))
    data = b"".join(write_image(cluster.ns))
    random = Random(4)
    for end in range(len(data)):
        with pytest.raises(ImageError):
            read_image(memoryview(data[:end]), cluster.settings)
    for padding in (b"\x00", b"\xff", b"\x00" * 512, data):
        with pytest.raises(ImageError):
            read_image(memoryview(data + padding), cluster.settings)
    for _ in range(300):
        flipped = bytearray(data)
        flipped[random.randrange(len(data))] ^= 1 << random.randrange(8)
        with pytest.raises(ImageError):
            read_image(memoryview(flipped), cluster.settings)
    for _ in range(500):
        with pytest.raises(ImageError):
            read_image(memoryview(random.randbytes(random.randrange(512))), cluster.settings)


def test_restart_from_a_checkpoint_and_the_edits_behind_it() -> None:
    cluster = full_of_everything()
    offset = cluster.checkpoint()
    assert offset == cluster.ns.last_offset
    cluster.ask(Mkdirs("/after", 0o755))
    cluster.write("/after/f", 9)
    expected = durable_state(cluster.ns)
    cluster.restart()
    assert durable_state(cluster.ns) == expected
    cluster.checkpoint()
    cluster.ask(Mkdirs("/more", 0o755))
    cluster.checkpoint()
    assert len(checkpoint.image_offsets(cluster.disk, "name")) == 2
    assert cluster.namenode.journal.log.log_start_offset > offset
    expected = durable_state(cluster.ns)
    cluster.lose_power()
    assert durable_state(cluster.ns) == expected


def test_a_damaged_checkpoint_falls_back_to_the_one_before() -> None:
    cluster = full_of_everything()
    cluster.checkpoint()
    cluster.ask(Mkdirs("/between", 0o755))
    newest = cluster.checkpoint()
    cluster.ask(Mkdirs("/after", 0o755))
    expected = durable_state(cluster.ns)
    path = checkpoint.image_path("name", newest)
    content = bytearray(cluster.disk.read_file(path))
    content[len(content) // 2] ^= 1
    cluster.disk.overwrite(path, bytes(content))
    cluster.restart()
    assert cluster.damaged == [path]
    assert durable_state(cluster.ns) == expected


def test_no_whole_checkpoint_is_no_start() -> None:
    cluster = full_of_everything()
    offset = cluster.checkpoint()
    cluster.disk.overwrite(checkpoint.image_path("name", offset), b"")
    with pytest.raises(CorruptionError, match="no checkpoint"):
        cluster.restart()


def test_a_log_that_lost_its_end_is_refused() -> None:
    cluster = full_of_everything()
    cluster.checkpoint()
    path = "name/__namespace-0/00000000000000000000.log"
    content = cluster.disk.read_file(path)[: cluster.namenode.journal.log.size_bytes]
    cluster.disk.kill()
    cluster.disk.overwrite(path, content[: len(content) // 2])
    with pytest.raises(CorruptionError, match="before the checkpoint"):
        cluster.open()


@pytest.mark.parametrize("zeros", [b"", b"\x00" * 5000], ids=["", "zeros"])
@pytest.mark.parametrize("tail", [b"\x00" * 700, b"\xff" * 700, b"garbage" * 99])
def test_a_bad_tail_of_the_log_is_cut(tail: bytes, zeros: bytes) -> None:
    """With or without the zeros that are written ahead of the end."""
    cluster = SimulatedNameNode(disk=SimulatedDisk())
    cluster.ask(Mkdirs("/a", 0o755))
    expected = durable_state(cluster.ns)
    path = "name/__namespace-0/00000000000000000000.log"
    edits = cluster.disk.read_file(path)[: cluster.namenode.journal.log.size_bytes]
    cluster.disk.overwrite(path, edits + tail + zeros)
    cluster.restart()
    assert durable_state(cluster.ns) == expected
    recovered = cluster.namenode.journal.log.recovered
    assert (recovered.cut_bytes > 0) == any(tail), "zeros alone are no loss"
    assert cluster.ask(Mkdirs("/b", 0o755)) is True


def test_a_flipped_byte_inside_the_log_is_never_misread() -> None:
    cluster = SimulatedNameNode()
    for index in range(5):
        cluster.ask(Mkdirs(f"/d{index}", 0o755))
    path = "name/__namespace-0/00000000000000000000.log"
    good = cluster.disk.read_file(path)
    at = good.index(b"d1")
    bad = bytearray(good)
    bad[at] ^= 1
    cluster.disk.kill()
    cluster.disk.overwrite(path, bytes(bad))
    with pytest.raises(CorruptionError):
        cluster.open()


def test_garbage_is_never_taken_for_an_edit() -> None:
    """5 000 sequences of up to 512 bytes: refused, or an edit that encodes to itself."""
    random = Random(9)
    for _ in range(5_000):
        data = random.randbytes(random.randrange(512))
        try:
            edit = decode_edit(data)
        except CorruptionError:
            continue
        assert decode_edit(encode_edit(edit)) == edit


def test_an_edit_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(CorruptionError, match="unknown"):
        decode_edit(b"\xfa\x07\x00")
    with pytest.raises(CorruptionError, match="unknown"):
        decode_edit(b"")
