#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Talks over rsockets (librdmacm), which are loaded at run time: numbered blocks one way, their count back; each byte
is compared.

  rsocket_talk.py --server ADDRESS PORT
  rsocket_talk.py --client ADDRESS PORT BLOCKS      0: for ever
"""
import ctypes
import socket
import struct
import sys

BLOCK = 4096
EACH = 16               # blocks for an answer
ANSWER = struct.Struct("!Q")
_rs = ctypes.CDLL("librdmacm.so.1", use_errno=True)
_rs.rsend.restype = _rs.rrecv.restype = ctypes.c_ssize_t
_rs.rsend.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
_rs.rrecv.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def must(result, what):
    if result < 0:
        sys.exit(f"{what}: errno {ctypes.get_errno()}")
    return result


def name_of(host, port):
    """struct sockaddr_in"""
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def block(number):
    return struct.pack("!Q", number) * (BLOCK // 8)


def send_all(fd, data):
    while data:
        data = data[must(_rs.rsend(fd, data, len(data), 0), "rsend"):]


def receive_all(fd, size):
    """Fewer bytes: the other end is through."""
    data = ctypes.create_string_buffer(size)
    got = 0
    while got < size:
        n = must(_rs.rrecv(fd, ctypes.byref(data, got), size - got, 0), "rrecv")
        if not n:
            break
        got += n
    return data.raw[:got]


def serve(host, port):
    listening = must(_rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0), "rsocket")
    name = name_of(host, port)
    must(_rs.rbind(listening, name, len(name)), "rbind")
    must(_rs.rlisten(listening, 1), "rlisten")
    fd = must(_rs.raccept(listening, None, None), "raccept")
    number = wrong = 0
    while True:
        data = receive_all(fd, BLOCK)
        if not data:
            break
        wrong += data != block(number)
        number += 1
        if number % EACH == 0:
            send_all(fd, ANSWER.pack(number))
    _rs.rclose(fd)
    print(f"RECEIVED {number} WRONG {wrong}", flush=True)
    return wrong


def talk(host, port, blocks):
    fd = must(_rs.rsocket(socket.AF_INET, socket.SOCK_STREAM, 0), "rsocket")
    name = name_of(host, port)
    must(_rs.rconnect(fd, name, len(name)), "rconnect")
    number = wrong = 0
    while not blocks or number < blocks:
        send_all(fd, block(number))
        number += 1
        if number % EACH == 0:
            wrong += receive_all(fd, ANSWER.size) != ANSWER.pack(number)
            if wrong:
                sys.exit("a wrong answer")
    must(_rs.rshutdown(fd, socket.SHUT_RDWR), "rshutdown")
    _rs.rclose(fd)
    print(f"SENT {number} WRONG {wrong}", flush=True)
    return wrong


def main():
    role, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    return serve(host, port) if role == "--server" else talk(host, port, int(sys.argv[4]))


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
