"""The real Apache HDFS 3.5.0, one NameNode and some DataNodes: the control of our tests.

A test that our file system passes and Apache's fails is a wrong test. Has the same face as
`headrace.testing.filesystem.LocalFileSystem`, as far as tests of clients need it.

Owns: the formatted folders, the JVMs, their ports.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.interop import hadoop_tools

START_TIMEOUT_S = 120.0
NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"

SHIPPED_LOGGING = """\
log4j.rootLogger=INFO,RFA
log4j.appender.NullAppender=org.apache.log4j.varia.NullAppender
log4j.appender.RFA=org.apache.log4j.RollingFileAppender
log4j.appender.RFA.File=${hadoop.log.dir}/${hadoop.log.file}
log4j.appender.RFA.MaxFileSize=256MB
log4j.appender.RFA.MaxBackupIndex=20
log4j.appender.RFA.layout=org.apache.log4j.PatternLayout
log4j.appender.RFA.layout.ConversionPattern=%d{ISO8601} %p %c: %m%n
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=INFO,NullAppender
log4j.additivity.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=false
"""
"""What a daemon of the distribution logs: all that is worth a line to a file, no audit."""

DEFAULTS = {
    "dfs.namenode.fs-limits.min-block-size": "1048576",
    "dfs.namenode.safemode.extension": "0",
    "dfs.heartbeat.interval": "1",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.permissions.enabled": "true",
    "dfs.namenode.acls.enabled": "true",
}


class RealHdfs:
    def __init__(
        self,
        *,
        datanodes: int = 3,
        settings: Mapping[str, str] | None = None,
        heap_mb: int = 256,
        as_shipped: bool = False,
    ) -> None:
        """`as_shipped`: with the collector and the logs that its own scripts start it with; else
        small and silent."""
        hadoop_tools.prepare()
        self.data = Path(tempfile.mkdtemp(prefix="headrace-hdfs-"))
        self.count = datanodes
        self.settings = {**DEFAULTS, "dfs.replication": str(min(3, datanodes)), **(settings or {})}
        self._heap_mb = heap_mb
        self._as_shipped = as_shipped
        self._rpc_port, self._http_port = free_ports(2)
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._rpc_port}"

    @property
    def url(self) -> str:
        return f"hdfs://{self.address}"

    @property
    def http_address(self) -> str:
        return f"127.0.0.1:{self._http_port}"

    @property
    def http_url(self) -> str:
        return f"http://{self.http_address}"

    def start(self) -> "RealHdfs":
        conf = self._write_conf("namenode", self._namenode_settings())
        self._launch(conf, NAMENODE, "-format", "-nonInteractive").wait(START_TIMEOUT_S)
        self.processes = [self._launch(conf, NAMENODE)]
        for index in range(self.count):
            conf = self._write_conf(f"datanode-{index}", self._datanode_settings(index))
            self.processes.append(self._launch(conf, DATANODE))
        self._await_datanodes()
        return self

    def _namenode_settings(self) -> dict[str, str]:
        return {
            "fs.defaultFS": self.url,
            "dfs.namenode.rpc-address": self.address,
            "dfs.namenode.http-address": self.http_address,
            "dfs.namenode.name.dir": f"file://{self.data}/name",
            **self.settings,
        }

    def _datanode_settings(self, index: int) -> dict[str, str]:
        ports = free_ports(3)
        return {
            **self._namenode_settings(),
            "dfs.datanode.address": f"127.0.0.1:{ports[0]}",
            "dfs.datanode.ipc.address": f"127.0.0.1:{ports[1]}",
            "dfs.datanode.http.address": f"127.0.0.1:{ports[2]}",
            "dfs.datanode.data.dir": f"file://{self.data}/data-{index}",
        }

    def _write_conf(self, name: str, settings: dict[str, str]) -> Path:
        folder = self.data / f"conf-{name}"
        folder.mkdir(exist_ok=True)
        properties = "".join(
            f"<property><name>{key}</name><value>{value}</value></property>\n"
            for key, value in settings.items()
        )
        text = f"<configuration>\n{properties}</configuration>\n"
        for file in ("core-site.xml", "hdfs-site.xml"):
            (folder / file).write_text(text)
        if self._as_shipped:
            (folder / "log4j.properties").write_text(SHIPPED_LOGGING)
        return folder

    def _launch(self, conf: Path, *words: str) -> "subprocess.Popen[bytes]":
        command = ["java", f"-Xmx{self._heap_mb}m"]
        if self._as_shipped:
            command += ["-Djava.net.preferIPv4Stack=true", f"-Dhadoop.log.file={conf.name}.log"]
        else:
            command += ["-XX:+UseSerialGC"]
        command += ["-Dhadoop.log.dir=" + str(self.data), "-cp"]
        command += [f"{conf}:{hadoop_tools.class_path()}", *words]
        with (self.data / "hdfs.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.data,
                start_new_session=True,
            )

    def _await_datanodes(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        url = f"{self.http_url}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        live = f'"NumLiveDataNodes" : {self.count},'
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                page = urllib.request.urlopen(url, timeout=5).read().decode()
                if live in page and '"FSState" : "Operational"' in page:
                    return
            time.sleep(0.2)
        self.kill()
        raise AssertionError(f"HDFS did not start:\n{(self.data / 'hdfs.log').read_text()[-4000:]}")

    def kill(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.processes = []

    def __enter__(self) -> "RealHdfs":
        try:
            return self.start()
        except BaseException:
            self.kill()
            shutil.rmtree(self.data, ignore_errors=True)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()
        shutil.rmtree(self.data, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago; all taken together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
