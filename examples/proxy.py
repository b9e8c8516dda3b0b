"""A client behind a proxy: `proxy.url`, and the error when the proxy refuses the client."""

from __future__ import annotations

import socketserver
from base64 import b64encode
from socket import SHUT_WR, create_connection, socket
from threading import Thread

from kafka_native import KafkaError, Producer
from kafka_native.mock import MockCluster

# A minimal proxy (HTTP CONNECT with a login). You already have one.
LOGIN = b"Basic " + b64encode(b"alice:s3cret")


def pump(source: socket, sink: socket) -> None:
    """Copy bytes until the end."""
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(SHUT_WR)
    except OSError:
        pass  # the other direction has closed it


class Connect(socketserver.StreamRequestHandler):
    """Serve one connection of a client."""

    rbufsize = 0

    def handle(self) -> None:
        """Accept or refuse the connection."""
        where = self.rfile.readline().split()[1].decode()
        fields = dict(line.strip().split(b": ", 1) for line in iter(self.rfile.readline, b"\r\n"))
        if fields.get(b"Proxy-Authorization") != LOGIN:
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        host, _, port = where.rpartition(":")
        with create_connection((host, int(port))) as broker:
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            Thread(target=pump, args=(broker, self.connection), daemon=True).start()
            pump(self.connection, broker)


server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connect)
server.daemon_threads = True
Thread(target=server.serve_forever, daemon=True).start()
proxy = f"127.0.0.1:{server.server_address[1]}"

cluster = MockCluster(brokers=3)
cluster.create_topic("greetings", 3)
conf = {"bootstrap.servers": cluster.bootstrap_servers, "proxy.url": f"http://alice:s3cret@{proxy}"}

# 1. Every connection goes through the proxy.
with Producer(conf) as producer:
    for number in range(30):
        producer.produce("greetings", "hello", partition=number % 3)
    producer.flush(30)
print("delivered:", sum(cluster.watermarks("greetings", partition)[1] for partition in range(3)))

# 2. The error names the proxy, its answer, and the property to set.
errors: list[KafkaError] = []
lonely = Producer({**conf, "proxy.url": f"http://{proxy}", "error_cb": errors.append})
lonely.produce("greetings", "a reason to connect")
while not errors:
    lonely.poll(1)
lonely.close(0)
print("refused:", errors[0].str().replace(proxy, "127.0.0.1:3128"))

server.shutdown()
server.server_close()
cluster.close()
