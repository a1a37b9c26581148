# SPDX-License-Identifier: BSD-3-Clause
"""Reads keys of a store as a bystander on some host does. The protocol is in docs/store.md."""
import struct

HANDSHAKE = b"\x00\xce\xf7\x85\x3c"
SET, GET, CHECK, LIST_KEYS = 1, 3, 5, 17


def _bytes(value):
    return struct.pack("<Q", len(value)) + value


class StoreClient:
    """One connection, one question at a time. Keys are the user's: the leading slash of the wire is put on here."""

    def __init__(self, host, address, port, seconds=5):
        self._socket = host.connect(address, port, seconds)
        self._socket.sendall(HANDSHAKE)

    def _read(self, size):
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the store has closed the connection")
            data += part
        return data

    def _number(self):
        return struct.unpack("<Q", self._read(8))[0]

    def _ask(self, operation, *parts):
        self._socket.sendall(bytes([operation]) + b"".join(parts))

    def has(self, key):
        self._ask(CHECK, struct.pack("<Q", 1), _bytes(b"/" + key.encode()))
        return self._read(1) == b"\x00"

    def get(self, key):
        """The value, or None."""
        if not self.has(key):
            return None
        self._ask(GET, _bytes(b"/" + key.encode()))
        return self._read(self._number())

    def set(self, key, value):
        self._ask(SET, _bytes(b"/" + key.encode()), _bytes(value))

    def keys(self):
        self._ask(LIST_KEYS)
        return sorted(self._read(self._number()).decode().removeprefix("/") for _ in range(self._number()))

    def close(self):
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
