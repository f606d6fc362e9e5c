#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A Redis server that speaks nothing but TLS: by rediss://, and through stunnel, by docs/examples/stunnel.conf.

usage: tls_test.py SHIFTCTL
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SHIFTCTL = sys.argv[1]
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/examples/stunnel.conf")
STUNNEL = shutil.which("stunnel4") or shutil.which("stunnel")
TOOLS = [t for t in ("redis-server", "openssl") if not shutil.which(t)]
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("SHIFT_")}
_libc = ctypes.CDLL(None)


def die_with_parent():
    _libc.prctl(1, signal.SIGKILL)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def answers(url, **env):
    """(whether the doctor finds the store well, what it says of it)."""
    got = subprocess.run([SHIFTCTL, "doctor", "--kv", url], env={**CLEAN, **env}, text=True,
                         capture_output=True, timeout=60, check=False)
    said = [line for line in (got.stdout + got.stderr).splitlines() if "kv" in line.split()[:2]]
    return any(" NO " not in line for line in said), "\n".join(said) or got.stdout + got.stderr


def answers_soon(url, process):
    """Programs say nowhere that they listen by now."""
    end = time.monotonic() + 30
    while True:
        well, said = answers(url)
        if well or time.monotonic() > end or process.poll() is not None:
            return well, said
        time.sleep(0.05)


def await_listening(port):
    end = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def openssl(folder, *args):
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)


def sign_expired(folder):
    """By `openssl ca`: since 3.4 `openssl x509` signs for no time that is over."""
    for name, text in (("index.txt", ""), ("own.srl", "01\n")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    with open(os.path.join(folder, "ca.conf"), "w") as f:
        f.write("[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\nserial=own.srl\nnew_certs_dir=.\ndefault_md=sha256\n"
                "policy=any\n[any]\ncommonName=supplied\n")
    openssl(folder, "ca", "-batch", "-notext", "-config", "ca.conf", "-cert", "ca.pem", "-keyfile", "ca.key",
            "-startdate", "20200101000000Z", "-enddate", "20200201000000Z", "-extfile", "ext", "-in",
            "expired.csr", "-out", "expired.pem")


def certificates(folder):
    """
    A CA, and what it signed: server (for localhost), the same until 2020, one of another host, and
    client; another CA that signed nothing.
    """
    for ca in ("ca", "other"):
        openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                f"/CN=SHIFT test {ca}", "-keyout", f"{ca}.key", "-out", f"{ca}.pem")
    here, elsewhere = "DNS:localhost,IP:127.0.0.1", "DNS:redis.example.org,IP:127.0.0.7"
    for name, names in (("server", here), ("expired", here), ("stranger", elsewhere), ("client", here)):
        with open(os.path.join(folder, "ext"), "w") as f:
            f.write(f"subjectAltName={names}\n")
        openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout",
                f"{name}.key", "-out", f"{name}.csr")
        if name == "expired":
            sign_expired(folder)
            continue
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.pem")


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="shift-kv-tls-")
        certificates(cls.dir)
        cls.port, cls.expired_port, cls.stranger_port = free_port(), free_port(), free_port()
        cls.server = cls.start_redis(cls.port, "server")
        cls.expired = cls.start_redis(cls.expired_port, "expired")
        cls.stranger = cls.start_redis(cls.stranger_port, "stranger")

    @classmethod
    def tearDownClass(cls):
        for server in (cls.server, cls.expired, cls.stranger):
            server.kill()
            server.wait()
        shutil.rmtree(cls.dir)

    @classmethod
    def start_redis(cls, port, name):
        return cls.start("redis-server", "--port", "0", "--tls-port", str(port), "--bind",
                         "127.0.0.1", "--dir", cls.dir, "--save", "",
                         "--tls-cert-file", cls.at(name + ".pem"),
                         "--tls-key-file", cls.at(name + ".key"),
                         "--tls-ca-cert-file", cls.at("ca.pem"))

    @classmethod
    def at(cls, name):
        return os.path.join(cls.dir, name)

    @classmethod
    def start(cls, *argv):
        return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def test_plain_is_refused(self):
        well, said = answers(f"redis://127.0.0.1:{self.port}")
        self.assertFalse(well, said)

    def stunnel_conf(self, sock, port):
        """The example, for here."""
        with open(EXAMPLE) as f:
            text = f.read()
        for old, new in (("/run/user/1000/shift-kv.sock", sock),
                         ("redis.example.org:6380", f"localhost:{port}"),
                         ("redis.example.org", "localhost"), ("/etc/shift/", self.dir + "/")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(sock + ".conf", "w") as f:
            f.write(text)
        return sock + ".conf"

    @unittest.skipUnless(STUNNEL, "stunnel4 is not installed")
    def test_stunnel(self):
        sock = self.at("kv.sock")
        stunnel = self.start(STUNNEL, self.stunnel_conf(sock, self.port))
        try:
            well, said = answers_soon(f"redis+unix://{sock}", stunnel)
            self.assertTrue(well, said)
        finally:
            stunnel.kill()
            stunnel.wait()

    @unittest.skipUnless(STUNNEL, "stunnel4 is not installed")
    def test_stunnel_expired(self):
        """Refused, in one line that names the way; stunnel says that it is the certificate."""
        sock = self.at("expired.sock")
        with open(self.at("stunnel.log"), "w") as log:
            stunnel = subprocess.Popen([STUNNEL, self.stunnel_conf(sock, self.expired_port)],
                                       stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                       preexec_fn=die_with_parent)
        try:
            end = time.monotonic() + 30
            while "certificate has expired" not in self.read("stunnel.log"):
                well, said = answers(f"redis+unix://{sock}")
                self.assertFalse(well, said)
                self.assertLess(time.monotonic(), end, self.read("stunnel.log"))
            self.assertEqual(said.count("\n"), 0, said)
            self.assertIn(sock, said)
        finally:
            stunnel.kill()
            stunnel.wait()

    def read(self, name):
        with open(self.at(name)) as f:
            return f.read()

    def test_rediss(self):
        url = f"rediss://localhost:{self.port}?ca={self.at('ca.pem')}"
        own = f"&cert={self.at('client.pem')}&key={self.at('client.key')}"
        well, said = answers_soon(url + own, self.server)
        self.assertTrue(well, said)
        well, said = answers(url)
        self.assertFalse(well, "without a certificate: " + said)
        well, said = answers(url.replace("ca.pem", "other.pem") + own)
        self.assertFalse(well, "a server of another CA: " + said)
        self.assertIn("TLS", said)
        well, said = answers(url.replace("ca.pem", "none.pem") + own)
        self.assertFalse(well, "no CA: " + said)
        await_listening(self.expired_port)
        well, said = answers(url.replace(str(self.port), str(self.expired_port)) + own)
        self.assertFalse(well, "a certificate of 2020: " + said)
        self.assertIn("TLS", said)
        self.assertIn("expired", said)
        self.assertTrue(answers(url.replace("localhost", "127.0.0.1") + own)[0], "by the address")
        await_listening(self.stranger_port)
        for host in ("localhost", "127.0.0.1"):
            well, said = answers(f"rediss://{host}:{self.stranger_port}?ca={self.at('ca.pem')}" + own)
            self.assertFalse(well, f"another host's certificate, for {host}: {said}")
            self.assertIn("mismatch", said)


if __name__ == "__main__":
    if TOOLS:
        print("skipped:", ", ".join(TOOLS), "missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
