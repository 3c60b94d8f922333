"""Transactions at full speed, in raw requests: a batch to every partition, then EndTxn, again.

Owns: producers of transactions v2, each with its own connection, that wait for one answer before
they ask the next question. Whoever is told to come again does so at once. Must not know: which
server it talks to.

Run as a process: `python -m bench.clients.transactions ADDRESS TOPIC PARTITIONS PRODUCERS SECONDS
RECORDS SIZE`; says "ready", waits for a line, prints one JSON line at the end.
"""

import json
import os
import resource
import socket
import struct
import sys
import threading
import time
from typing import Any

from headrace.testing.broker import response_class_of
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.end_txn import EndTxnRequest
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from headrace.wire.kafka.records import build_batch

TRANSACTION_KEY = 1
PRODUCE_VERSION, END_VERSION, INIT_VERSION, FIND_VERSION = 12, 5, 5, 4
AGAIN = {14, 15, 16, 19, 51}
START_TIMEOUT_S = 30.0
AGAIN_PAUSE_S = 0.001


class Producer:
    def __init__(self, address: str, name: str, topic: str, partitions: int) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._name = name
        self._topic = topic
        self._partitions = partitions
        self._correlation_id = 0
        self.repeated = 0
        self.done = 0

    def ask(self, request: Message, version: int) -> Any:
        self._correlation_id += 1
        self._socket.sendall(encode_request(request, version, self._correlation_id, self._name))
        (size,) = struct.unpack(">i", self._receive(4))
        return decode_response(response_class_of(type(request)), self._receive(size), version)[1]

    def _receive(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            assert part, "the server closed the connection"
            parts += part
        return bytes(parts)

    def init(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        find = FindCoordinatorRequest(coordinator_keys=[self._name], key_type=TRANSACTION_KEY)
        init = InitProducerIdRequest(transactional_id=self._name, transaction_timeout_ms=60_000)
        while time.monotonic() < deadline:
            if self.ask(find, FIND_VERSION).coordinators[0].error_code == 0:
                answer = self.ask(init, INIT_VERSION)
                if answer.error_code == 0:
                    self._identity = (answer.producer_id, answer.producer_epoch)
                    return
            time.sleep(0.05)
        raise SystemExit("no producer id in time")

    def transaction(self, records: int, payload: bytes) -> None:
        producer_id, epoch = self._identity
        batch = bytes(
            build_batch(
                [(None, payload, (), 0)] * records,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                is_transactional=True,
            )
        )
        data = [PartitionProduceData(index=n, records=batch) for n in range(self._partitions)]
        produce = ProduceRequest(
            transactional_id=self._name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=data)],
        )
        while True:
            rows = self.ask(produce, PRODUCE_VERSION).responses[0].partition_responses
            errors = {row.error_code for row in rows}
            if errors == {0}:
                break
            assert errors <= AGAIN | {0}, errors
            self.repeated += 1
            time.sleep(AGAIN_PAUSE_S)
        end = EndTxnRequest(
            transactional_id=self._name,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=True,
        )
        while True:
            answer = self.ask(end, END_VERSION)
            if answer.error_code == 0:
                self._identity = (answer.producer_id, answer.producer_epoch)
                self.done += 1
                return
            assert answer.error_code in AGAIN, answer.error_code
            self.repeated += 1
            time.sleep(AGAIN_PAUSE_S)


def main() -> None:
    address, topic, partitions, producers, seconds, records, size = sys.argv[1:8]
    crowd = [Producer(address, f"bench-{n}", topic, int(partitions)) for n in range(int(producers))]
    payload = os.urandom(int(size))
    for one in crowd:
        one.init()
        one.transaction(int(records), payload)  # the first one creates and loads what is needed
        one.done = one.repeated = 0
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    started_s = time.monotonic()
    deadline = started_s + float(seconds)

    def work(one: Producer) -> None:
        while time.monotonic() < deadline:
            one.transaction(int(records), payload)

    threads = [threading.Thread(target=work, args=(one,)) for one in crowd]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    elapsed_s = time.monotonic() - started_s
    after = resource.getrusage(resource.RUSAGE_SELF)
    done = sum(one.done for one in crowd)
    print(
        json.dumps(
            {
                "seconds": elapsed_s,
                "done": done,
                "rate": done / elapsed_s,
                "repeated": sum(one.repeated for one in crowd),
                "client_cpu_s": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
            }
        )
    )


if __name__ == "__main__":
    main()
