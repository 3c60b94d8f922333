"""What a connected socket is told."""

import socket

from headrace.runtime import socket_options


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_on_one_machine_nothing_is_paced_and_nothing_waits() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as server,
    ):
        for end in (client, server):
            socket_options.prepare(end)
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert congestion_control(end) == b"cubic"


def test_between_machines_the_systems_choice_stands() -> None:
    class FromAfar(socket.socket):
        def getpeername(self) -> tuple[str, int]:
            return "192.0.2.1", 9

    with FromAfar() as sock:
        chosen = congestion_control(sock)
        socket_options.prepare(sock)
        assert congestion_control(sock) == chosen
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_socket_that_is_gone_is_left_to_its_reader() -> None:
    with socket.socket() as sock:
        socket_options.prepare(sock)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
