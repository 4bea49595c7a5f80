# SPDX-License-Identifier: LGPL-2.1-or-later
"""
A D-Bus client as small as it gets, so that tests can say what no library would: wrong types, the same key
twice, a hundred calls without reading one answer, a connection closed in the middle of a question.

Values: integers, strings, booleans and floats as they are; arrays and structs as sequences; a{..} as a list of
pairs (or a dict); a variant as (signature, value). A file descriptor ('h') comes back as a number its caller
closes.
"""

import array
import os
import select
import socket
import struct
import time

BUS = "org.freedesktop.DBus"
NO_REPLY, INTERACTIVE = 1, 4
FIXED = {"y": ("B", 1), "b": ("I", 4), "n": ("h", 2), "q": ("H", 2), "i": ("i", 4), "u": ("I", 4), "x": ("q", 8),
         "t": ("Q", 8), "d": ("d", 8), "h": ("I", 4)}


class DBusError(Exception):
    def __init__(self, name, text):
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


def split(signature):
    """The complete types a signature consists of."""
    types, i = [], 0
    while i < len(signature):
        start = i
        while signature[i] == "a":
            i += 1
        if signature[i] in "({":
            depth = 0
            while True:
                depth += (signature[i] in "({") - (signature[i] in ")}")
                i += 1
                if depth == 0:
                    break
        else:
            i += 1
        types.append(signature[start:i])
    return types


def alignment(t):
    if t[0] in FIXED:
        return FIXED[t[0]][1]
    return {"s": 4, "o": 4, "a": 4, "g": 1, "v": 1}.get(t[0], 8)


class Writer:
    def __init__(self):
        self.data = bytearray()

    def pad(self, n):
        self.data += bytes(-len(self.data) % n)

    def put(self, t, value):
        self.pad(alignment(t))
        if t in FIXED:
            self.data += struct.pack("<" + FIXED[t][0], value)
        elif t in "so":
            raw = value if isinstance(value, bytes) else value.encode()
            self.data += struct.pack("<I", len(raw)) + raw + b"\0"
        elif t == "g":
            self.data += bytes([len(value)]) + value.encode() + b"\0"
        elif t == "v":
            self.put("g", value[0])
            self.put(value[0], value[1])
        elif t[0] == "a":
            at = len(self.data)
            self.data += bytes(4)
            self.pad(alignment(t[1]))
            start = len(self.data)
            for item in value.items() if isinstance(value, dict) else value:
                self.put(t[1:], item)
            struct.pack_into("<I", self.data, at, len(self.data) - start)
        else:
            for inner, item in zip(split(t[1:-1]), value, strict=True):
                self.put(inner, item)


class Reader:
    def __init__(self, data, fds=()):
        self.data = data
        self.at = 0
        self.fds = fds

    def get(self, t):
        self.at += -self.at % alignment(t)
        if t in FIXED:
            code, size = FIXED[t]
            value = struct.unpack_from("<" + code, self.data, self.at)[0]
            self.at += size
            return self.fds[value] if t == "h" else bool(value) if t == "b" else value
        if t in "so":
            n = self.get("u")
            self.at += n + 1
            return self.data[self.at - n - 1:self.at - 1].decode()
        if t == "g":
            n = self.get("y")
            self.at += n + 1
            return self.data[self.at - n - 1:self.at - 1].decode()
        if t == "v":
            return self.get(self.get("g"))
        if t[0] == "a":
            n = self.get("u")
            self.at += -self.at % alignment(t[1])
            end, items = self.at + n, []
            while self.at < end:
                items.append(self.get(t[1:]))
            return dict(items) if t[1] == "{" else items
        return tuple(self.get(inner) for inner in split(t[1:-1]))


class Message:
    def __init__(self, kind, serial, fields, body, fds):
        self.kind = kind  # 1 call, 2 return, 3 error, 4 signal
        self.serial = serial
        self.path, self.interface, self.destination, self.sender = (fields.get(i) for i in (1, 2, 6, 7))
        self.reply_to = fields.get(5)
        self.member = fields.get(3)
        self.error = fields.get(4)
        self.body, self.fds = body, fds


class Connection:
    """Whoever is the effective user at this moment is the user the bus sees."""

    def __init__(self, path="/run/dbus/system_bus_socket"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self.socket.connect(path)
        self.buffer = b""
        self.fds = []
        self.serial = 0
        self.messages = []
        self.socket.sendall(b"\0AUTH EXTERNAL " + str(os.geteuid()).encode().hex().encode() + b"\r\n")
        self._expect(b"OK ")
        self.socket.sendall(b"NEGOTIATE_UNIX_FD\r\n")
        self._expect(b"AGREE_UNIX_FD")
        self.socket.sendall(b"BEGIN\r\n")
        self.name = self.call(BUS, "/org/freedesktop/DBus", BUS, "Hello")[0]

    def close(self):
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
        self.fds = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _expect(self, word):
        line = b""
        while not line.endswith(b"\r\n"):
            byte = self.socket.recv(1)
            if not byte:
                raise EOFError("the bus has closed")
            line += byte
        if not line.startswith(word):
            raise DBusError("auth", repr(line))

    def _send(self, kind, fields, signature, args, flags=0):
        body, head = Writer(), Writer()
        for t, value in zip(split(signature), args, strict=True):
            body.put(t, value)
        self.serial += 1
        if signature:
            fields = [*fields, (8, ("g", signature))]
        head.data += struct.pack("<cBBBII", b"l", kind, flags, 1, len(body.data), self.serial)
        head.put("a(yv)", fields)
        head.pad(8)
        self.socket.sendall(head.data + body.data)
        return self.serial

    def send(self, dest, path, interface, member, signature="", args=(), flags=0):
        """Sends a call and returns its serial, without waiting."""
        return self._send(1, [(1, ("o", path)), (2, ("s", interface)), (3, ("s", member)), (6, ("s", dest))],
                          signature, args, flags)

    def answer(self, call, signature, *args):
        self._send(2, [(5, ("u", call.serial)), (6, ("s", call.sender))], signature, args)

    def answer_error(self, call, name, text):
        self._send(3, [(4, ("s", name)), (5, ("u", call.serial)), (6, ("s", call.sender))], "s", [text])

    def signal(self, path, interface, member, signature, *args, dest=None):
        """To everybody who listens, or to dest, whether it does or not."""
        fields = [(1, ("o", path)), (2, ("s", interface)), (3, ("s", member))]
        self._send(4, fields + [(6, ("s", dest))] if dest else fields, signature, args)

    def _parse(self):
        """One message off the buffer, or None."""
        if len(self.buffer) < 16:
            return None
        body_size, serial, fields_size = struct.unpack_from("<III", self.buffer, 4)
        head_size = 16 + fields_size + -fields_size % 8
        if len(self.buffer) < head_size + body_size:
            return None
        head = Reader(self.buffer[:head_size])
        head.at = 12
        fields = dict(head.get("a(yv)"))
        n = fields.get(9, 0)
        fds, self.fds = self.fds[:n], self.fds[n:]
        body = Reader(self.buffer[head_size:head_size + body_size], fds)
        message = Message(self.buffer[1], serial, fields, [body.get(t) for t in split(fields.get(8, ""))], fds)
        self.buffer = self.buffer[head_size + body_size:]
        return message

    def receive(self, timeout=60.0):
        """The next message, or None when time is up."""
        end = time.monotonic() + timeout
        while True:
            message = self._parse()
            if message:
                return message
            if not select.select([self.socket], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4 * 64), socket.MSG_CMSG_CLOEXEC)
            if not data:
                raise EOFError("the bus has closed")
            for level, kind, raw in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    self.fds += array.array("i", raw[:len(raw) // 4 * 4])
            self.buffer += data

    def wait(self, serial, timeout=60.0):
        """The answer's values, or DBusError. Answers to other calls are kept for their own wait()."""
        end = time.monotonic() + timeout
        while True:
            for i, message in enumerate(self.messages):
                if message.reply_to == serial:
                    del self.messages[i]
                    if message.kind == 3:
                        raise DBusError(message.error, message.body[0] if message.body else "")
                    return message.body
            message = self.receive(max(0.0, end - time.monotonic()))
            if message is None:
                raise TimeoutError(f"no answer to call {serial}")
            if message.kind in (2, 3):
                self.messages.append(message)

    def call(self, *args, timeout=60.0, **kwargs):
        return self.wait(self.send(*args, **kwargs), timeout)
