#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""libshift-redis.so: Redis on a system without hiredis, and without each of the libraries that have several
sonames; and what is said where the module itself is missing, or that of another version.

usage: module_test.py SHIFTCTL MODULE CC
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from shiftlab.redis import Redis

SHIFTCTL, MODULE, CC = sys.argv[1:4]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith("SHIFT_")}


def doctor(url, shiftctl=SHIFTCTL, hide=(), **env):
    """(whether the doctor finds the store well, what it says of it); without what matches @hide."""
    found = [p for pattern in hide for d in ("/usr/lib/*", "/usr/lib*", "/usr/local/lib") for p in glob.glob(f"{d}/{pattern}")]
    files = sorted({os.path.realpath(path) for path in found})
    script = "".join(f"mount --bind /dev/null '{f}' && " for f in files) + 'exec "$@"'
    argv = [shiftctl, "doctor", "--kv", url]
    if hide:
        argv = ["unshare", "--mount", "sh", "-c", script, "sh", *argv]
    got = subprocess.run(argv, env={**CLEAN, **env}, text=True, capture_output=True, timeout=60, check=False)
    said = [line for line in (got.stdout + got.stderr).splitlines() if "kv" in line.split()[:2]]
    return any(" NO " not in line for line in said), "\n".join(said) or got.stdout + got.stderr


def can_hide():
    return not subprocess.run(["unshare", "--mount", "mount", "--bind", "/dev/null", CC],
                              capture_output=True, check=False).returncode


CAN_HIDE = unittest.skipUnless(can_hide(), "no library can be hidden here: no mount namespace")


class Module(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="shift-kv-module-")
        cls.server = Redis().start()
        cls.url = cls.server.url
        cls.secret = os.path.join(cls.dir, "secret")
        with open(os.open(cls.secret, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write("a secret of enough bytes\n")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()
        shutil.rmtree(cls.dir)

    def copy(self, name):
        """shiftctl and its module as an installed tree; paths of both."""
        top = os.path.join(self.dir, name)
        modules = os.path.join(top, "lib/shift/modules")
        os.makedirs(modules)
        os.makedirs(os.path.join(top, "bin"))
        return (shutil.copy(SHIFTCTL, os.path.join(top, "bin")),
                shutil.copy(MODULE, modules))

    @CAN_HIDE
    def test_without_hiredis(self):
        well, said = doctor(self.url, hide=["libhiredis*"])
        self.assertTrue(well, said)

    @CAN_HIDE
    def test_libraries_of_several_names(self):
        """Hidden under all of their names: it is said what to install."""
        env = {"SHIFT_SECRET_FILE": self.secret}
        well, said = doctor(self.url, **env)
        self.assertTrue(well, said)
        well, said = doctor(self.url, hide=["libcrypto.so*"], **env)
        self.assertFalse(well, said)
        self.assertIn("libcrypto.so.1.1", said)
        store = "lmdb:" + os.path.join(self.dir, "store")
        well, said = doctor(store, hide=["liblmdb.so*"])
        self.assertFalse(well, said)
        self.assertIn("liblmdb.so.0", said)

    @CAN_HIDE
    def test_another_name_of_lmdb(self):
        """Fedora's soname, in a folder of its own."""
        folder = os.path.join(self.dir, "fedora")
        os.mkdir(folder)
        file = next(iter(glob.glob("/usr/lib/*/liblmdb.so.0") + glob.glob("/usr/lib64/liblmdb.so.0*")))
        shutil.copy(file, os.path.join(folder, "liblmdb.so.0.0.0"))
        store = "lmdb:" + os.path.join(self.dir, "store")
        well, said = doctor(store, hide=["liblmdb.so*"], LD_LIBRARY_PATH=folder)
        self.assertTrue(well, said)

    def test_copied_tree(self):
        shiftctl, _ = self.copy("copied")
        well, said = doctor(self.url, shiftctl)
        self.assertTrue(well, said)

    def test_link_from_elsewhere(self):
        """The run path leads nowhere then: the module is found beside the file itself."""
        shiftctl, module = self.copy("linked")
        beside = os.path.join(os.path.dirname(shiftctl), "modules")
        os.mkdir(beside)
        os.rename(module, os.path.join(beside, os.path.basename(module)))
        link = os.path.join(self.dir, "a-link")
        os.symlink(shiftctl, link)
        well, said = doctor(self.url, link)
        self.assertTrue(well, said)

    def test_missing(self):
        shiftctl, module = self.copy("missing")
        os.unlink(module)
        well, said = doctor(self.url, shiftctl)
        self.assertFalse(well, said)
        self.assertIn("cannot load libshift-redis.so", said)
        self.assertIn("No such file", said)
        store = "lmdb:" + os.path.join(self.dir, "store")
        self.assertTrue(doctor(store, shiftctl)[0], "LMDB needs no module")

    def test_another_version(self):
        shiftctl, module = self.copy("version")
        source = os.path.join(self.dir, "other.c")
        with open(source, "w") as f:
            f.write('#include "kvclient/resp.h"\nconst struct kv_resp shift_redis_resp = { .version = 99 };\n')
        subprocess.run([CC, "-shared", "-fPIC", "-I", ROOT, "-o", module, source], check=True)
        well, said = doctor(self.url, shiftctl)
        self.assertFalse(well, said)
        self.assertIn("another version", said)


if __name__ == "__main__":
    missing = [t for t in ("redis-server", "unshare") if not shutil.which(t)]
    if missing:
        print("skipped:", ", ".join(missing), "missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
