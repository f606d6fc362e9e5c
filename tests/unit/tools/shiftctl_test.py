#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shiftctl from outside: environments, exit statuses, and one clear line when something is wrong.

usage: kv_shiftctl_test.py SHIFTCTL FIXTURE_LIBRARY DISTRO_LIBRARY [SIMNICCTL]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SHIFTCTL, FIXTURE, DISTRO = sys.argv[1:4]
SIMNICCTL = sys.argv[4] if len(sys.argv) > 4 else None
OURS = "libibverbs.so.1"
CLEAN = {k: v for k, v in os.environ.items()
         if not k.startswith(("SHIFT_", "LD_", "SIMNIC_", "MLX5_", "NCCL_", "UCX_", "OMPI_"))}
VARIABLES = {"NCCL_PROTO": "^LL128", "UCX_TLS": "^rc_x,dc_x,ud_x,ud_mlx5:aux", "UCX_RC_MAX_NUM_EPS": "inf",
             "UCX_IB_MLX5_DEVX": "n", "UCX_FENCE_MODE": "weak", "OMPI_MCA_btl_uct_memory_domains": "none",
             "OMPI_MCA_btl_ofi_provider_include": "none"}


def shiftctl(*args, before=(), **env):
    return subprocess.run([*before, SHIFTCTL, *args], env={**CLEAN, **env}, text=True,
                          capture_output=True, timeout=60, check=False)


class Base(unittest.TestCase):
    def setUp(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="shiftctl-test-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.lib = self.make_library("lib")

    def make_library(self, name):
        lib = os.path.join(self.dir, name)
        os.mkdir(lib)
        shutil.copy(FIXTURE, os.path.join(lib, OURS))
        os.symlink(OURS, os.path.join(lib, "libibverbs.so"))
        os.symlink(DISTRO, os.path.join(lib, "libibverbs-distro.so.1"))
        return lib

    def path(self, name):
        return os.path.join(self.lib, name)

    def preloaded(self):
        """Ours, then what is underneath: before a renamed copy that a program is linked to."""
        return [self.path(OURS), self.path("libibverbs-distro.so.1")]

    def run_env(self, *options, before=(), **env):
        """The environment that a command sees, and what was said."""
        got = shiftctl("run", "--libdir", self.lib, *options, "--", "env", "-0",
                       before=before, **env)
        self.assertEqual(got.returncode, 0, got.stderr)
        return dict(e.split("=", 1) for e in got.stdout.split("\0") if e), got.stderr

    def assert_without_shift(self, env, said, *words):
        self.assertNotIn(self.lib, env.get("LD_PRELOAD", ""))
        self.assertNotIn(self.lib, env.get("LD_LIBRARY_PATH", ""))
        self.assertEqual(env["SHIFT_DISABLE"], "1")
        self.assertEqual(said.count("\n"), 1, said)
        self.assertIn("env runs without SHIFT", said)
        for word in words:
            self.assertIn(word, said)


class Run(Base):
    def test_environment(self):
        env, said = self.run_env("--kv", "redis://head:6379", "--backup", "auto",
                                 "--log", "error", "--lazy")
        self.assertEqual(said, "")
        self.assertEqual(env["LD_PRELOAD"].split(":")[-2:], self.preloaded())
        self.assertEqual(env["LD_LIBRARY_PATH"], self.lib)
        self.assertEqual(env["SHIFT_KV"], "redis://head:6379")
        self.assertEqual(env["SHIFT_BACKUP"], "auto")
        self.assertEqual(env["SHIFT_LOG"], "error")
        self.assertEqual(env["SHIFT_LAZY"], "on")
        self.assertNotIn("SHIFT_DISABLE", env)

    def test_defaults_leave_variables_alone(self):
        env, _ = self.run_env(SHIFT_LOG="info")
        self.assertNotIn("SHIFT_ENV", env)
        self.assertNotIn("SHIFT_LL128", env)
        self.assertNotIn("SHIFT_KV", env)
        self.assertNotIn("SHIFT_BACKUP", env)
        self.assertNotIn("SHIFT_LAZY", env)
        self.assertEqual(env["SHIFT_LOG"], "info")

    def test_existing_entries_are_kept(self):
        other = os.path.join(self.make_library("other"), OURS)
        # A sanitizer's run time, which shiftctl may be built with, has to be the very first.
        plain = self.run_env()[0]["LD_PRELOAD"].split(":")
        old = plain[:-2] + [other]
        env, _ = self.run_env(LD_PRELOAD=":".join(old), LD_LIBRARY_PATH="/a:/b")
        self.assertEqual(env["LD_PRELOAD"].split(":"), old + self.preloaded())
        self.assertEqual(env["LD_LIBRARY_PATH"], f"{self.lib}:/a:/b")

    def test_require(self):
        """No protection, no start: here the fixture is no whole library."""
        got = shiftctl("run", "--require", "--libdir", self.lib, "--", "echo", "started", SHIFT_DISABLE="1")
        self.assertEqual((got.returncode, got.stdout), (125, ""))
        self.assertIn("SHIFT_DISABLE=1 turns SHIFT off", got.stderr)
        self.assertIn("echo is not started", got.stderr)
        os.unlink(self.path("libibverbs-distro.so.1"))
        got = shiftctl("run", "--require", "--libdir", self.lib, "--", "echo", "started")
        self.assertEqual((got.returncode, got.stdout), (125, ""))
        self.assertIn("is missing", got.stderr)

    def test_nested(self):
        once, _ = self.run_env()
        twice, said = self.run_env(before=(SHIFTCTL, "run", "--libdir", self.lib))
        self.assertEqual(said, "")
        for name in ("LD_PRELOAD", "LD_LIBRARY_PATH"):
            self.assertEqual(once[name], twice[name])

    def test_exit_status(self):
        for script, status in (("exit 0", 0), ("exit 37", 37), ("kill -9 $$", -9)):
            got = shiftctl("run", "--libdir", self.lib, "sh", "-c", script)
            self.assertEqual(got.returncode, status)

    def test_cannot_run(self):
        got = shiftctl("run", "--libdir", self.lib, "--", "no-such-command")
        self.assertEqual(got.returncode, 127)
        self.assertIn("no-such-command", got.stderr)
        got = shiftctl("run", "--libdir", self.lib, "--", self.dir)
        self.assertEqual(got.returncode, 126)

    def test_arguments_pass_untouched(self):
        args = ["--kv", "x", "--", "a b", "", "--help", "-z"]
        got = shiftctl("run", "--libdir", self.lib, "printf", "%s|", *args)
        self.assertEqual(got.stdout, "".join(a + "|" for a in args))

    def test_usage(self):
        for args in ((), ("--",), ("--kv",), ("--no-such", "true"), ("--log", "loud", "true")):
            got = shiftctl("run", *args)
            self.assertEqual(got.returncode, 125, args)
            self.assertTrue(got.stderr)
        for args in ((), ("bogus",), ("doctor", "extra"), ("doctor", "--bogus")):
            self.assertEqual(shiftctl(*args).returncode, 2, args)
        got = shiftctl("--help")
        self.assertEqual((got.returncode, got.stderr), (0, ""))
        self.assertIn("shiftctl run", got.stdout)


class Variables(Base):
    """Those of NCCL and UCX: what run sets, and what it leaves to the user."""

    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.dir, "home")
        os.mkdir(self.home)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        return path

    def those_set(self, *options, env=None, **more):
        """Those that run has set; without HOME, or what more has."""
        got = subprocess.run([SHIFTCTL, "run", "--libdir", self.lib, *options, "--", "/usr/bin/env", "-0"],
                             env={**{k: v for k, v in CLEAN.items() if k != "HOME"}, **(env or {}), **more},
                             text=True, capture_output=True, timeout=60, check=False, cwd=self.dir)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.said = got.stderr
        made = dict(e.split("=", 1) for e in got.stdout.split("\0") if e)
        return {k: v for k, v in made.items() if k.startswith(("NCCL_", "UCX_", "OMPI_")) and k not in more}

    def without(self, *names):
        return {k: v for k, v in VARIABLES.items() if k not in names}

    def test_all(self):
        self.assertEqual(self.those_set(HOME=self.home), VARIABLES)
        self.assertEqual(self.said, "")

    def test_one_line_says_so(self):
        self.those_set("--log", "info", HOME=self.home)
        self.assertEqual(self.said.count("\n"), 1, self.said)
        for name, value in VARIABLES.items():
            self.assertIn(f" {name}={value}", self.said)
        self.those_set("--log", "info", HOME=self.home, **VARIABLES)
        self.assertEqual(self.said, "")

    def test_what_is_set_stays(self):
        for name in VARIABLES:
            self.assertEqual(self.those_set(HOME=self.home, **{name: "x"}), self.without(name))
        self.assertEqual(self.those_set(HOME=self.home, NCCL_PROTO=""), self.without("NCCL_PROTO"))

    def test_turned_off(self):
        for options, env in ((("--no-env",), {}), ((), {"SHIFT_ENV": "off"}), ((), {"SHIFT_ENV": "0"})):
            self.assertEqual(self.those_set(*options, env=env, HOME=self.home), {})
        conf = self.write("shift.conf", "SHIFT_ENV = off\n")
        self.assertEqual(self.those_set(HOME=self.home, SHIFT_CONF=conf), {})
        self.assertEqual(self.those_set(HOME=self.home, SHIFT_ENV="on"), VARIABLES)

    def test_ll128(self):
        for options, env in ((("--ll128",), {}), ((), {"SHIFT_LL128": "on"})):
            self.assertEqual(self.those_set(*options, env=env, HOME=self.home), self.without("NCCL_PROTO"))

    def test_file_of_nccl(self):
        self.write("home/.nccl.conf", "# NCCL_PROTO=Simple\n NCCL_PROTO=Simple\nNCCL_PROTOX=1\nNCCL_PROTO\n")
        self.assertEqual(self.those_set(HOME=self.home), VARIABLES)
        self.write("home/.nccl.conf", "NCCL_DEBUG=WARN\nNCCL_PROTO=Simple")
        self.assertEqual(self.those_set(HOME=self.home), self.without("NCCL_PROTO"))

    def test_file_that_the_user_names(self):
        """NCCL takes it in place of the one in the home directory."""
        named = self.write("named", "NCCL_PROTO=LL\n")
        self.assertEqual(self.those_set(HOME=self.home, NCCL_CONF_FILE=named), self.without("NCCL_PROTO"))
        self.write("home/.nccl.conf", "NCCL_PROTO=Simple\n")
        other = self.write("other", "NCCL_DEBUG=WARN\n")
        self.assertEqual(self.those_set(HOME=self.home, NCCL_CONF_FILE=other), VARIABLES)
        self.assertEqual(self.those_set(HOME=self.home, NCCL_CONF_FILE=""), self.without("NCCL_PROTO"))

    def test_files_of_ucx(self):
        text = "; UCX_RC_MAX_NUM_EPS=1\n[default]\n  UCX_TLS = rc,self\n"
        for name, env in (("home/ucx.conf", {}), ("conf/ucx.conf", {"UCX_CONFIG_DIR": self.dir + "/conf"}),
                          ("ucx.conf", {}), ("ucx/etc/ucx/ucx.conf", {"LD_LIBRARY_PATH": f"/x:{self.dir}/ucx/lib"})):
            with self.subTest(name):
                os.makedirs(self.dir + "/ucx/lib", exist_ok=True)
                path = self.write(name, text)
                self.assertEqual(self.those_set(HOME=self.home, **env), self.without("UCX_TLS"))
                os.unlink(path)
                self.assertEqual(self.those_set(HOME=self.home, **env), VARIABLES)

    def test_file_of_open_mpi(self):
        self.write("home/.openmpi/mca-params.conf", "# btl_uct_memory_domains = x\nbtl = ^openib\n")
        self.assertEqual(self.those_set(HOME=self.home), VARIABLES)
        self.write("home/.openmpi/mca-params.conf", "btl = ^openib\n btl_uct_memory_domains = mlx5_0\n"
                   "btl_ofi_provider_include=verbs\n")
        self.assertEqual(self.those_set(HOME=self.home), self.without("OMPI_MCA_btl_uct_memory_domains", "OMPI_MCA_btl_ofi_provider_include"))

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_files_of_the_host(self):
        etc = os.path.join(self.dir, "etc")
        shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("nccl.conf", "ucx", "openmpi"))
        script = 'mount --bind "$1" /etc; shift; exec "$@"'
        enter = ["unshare", "--mount", "sh", "-c", script, "sh", etc]
        for name, text, variable in (("etc/nccl.conf", "NCCL_PROTO=^LL128\n", "NCCL_PROTO"),
                                     ("etc/openmpi/openmpi-mca-params.conf", "btl_uct_memory_domains=none\n",
                                      "OMPI_MCA_btl_uct_memory_domains"),
                                     ("etc/ucx/ucx.conf", "UCX_IB_MLX5_DEVX=y\n", "UCX_IB_MLX5_DEVX")):
            path = self.write(name, text)
            env, _ = self.run_env(before=enter, HOME=self.home)
            self.assertEqual({k: v for k, v in env.items() if k in VARIABLES}, self.without(variable))
            os.unlink(path)

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts")
    def test_no_home(self):
        """NCCL before 2.28 then reads the file of the user's entry in passwd; UCX none."""
        etc = os.path.join(self.dir, "etc")
        shutil.copytree("/etc", etc, symlinks=True, ignore=shutil.ignore_patterns("nccl.conf", "ucx", "openmpi"))
        self.write("etc/passwd", f"root:x:0:0:root:{self.home}:/bin/sh\n")
        script = 'mount --bind "$1" /etc; shift; unset HOME; exec "$@"'
        for name, text, but in (("ucx.conf", "UCX_TLS=rc\n", ()), (".nccl.conf", "NCCL_PROTO=Simple\n", ("NCCL_PROTO",))):
            path = self.write("home/" + name, text)
            env, _ = self.run_env(before=["unshare", "--mount", "sh", "-c", script, "sh", etc])
            self.assertEqual({k: v for k, v in env.items() if k in VARIABLES}, self.without(*but))
            os.unlink(path)

    def test_fence_beside_several_rails(self):
        for name in ("UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES"):
            self.assertEqual(self.those_set(HOME=self.home, **{name: "2"}), self.without("UCX_FENCE_MODE"))

    def test_also_without_shift(self):
        """Ranks that disagree about them hang."""
        os.unlink(self.path("libibverbs.so"))
        self.assertEqual(self.those_set(HOME=self.home), VARIABLES)
        self.assertIn("runs without SHIFT", self.said)

    def test_doctor(self):
        got = shiftctl("doctor", "--libdir", self.lib, HOME=self.home).stdout
        self.assertRegex(got, r"variables +ok +NCCL: shiftctl run sets NCCL_PROTO=\^LL128\n")
        self.assertRegex(got, r"variables +ok +UCX: shiftctl run sets UCX_TLS=\^rc_x")
        got = shiftctl("doctor", "--libdir", self.lib, HOME=self.home, SHIFT_PROGRAMS="x", NCCL_PROTO="Simple").stdout
        self.assertRegex(got, r"variables +note UCX, if not started by shiftctl run, needs UCX_TLS=.* in /etc/ucx/ucx.conf\n")
        self.assertNotIn("NCCL", got)


class BrokenLibrary(Base):
    def test_missing(self):
        for name in (OURS, "libibverbs.so", "libibverbs-distro.so.1"):
            with self.subTest(name=name):
                os.rename(self.path(name), self.path("away"))
                self.assert_without_shift(*self.run_env(), self.lib, name)
                os.rename(self.path("away"), self.path(name))
        self.assertEqual(self.run_env()[1], "")

    def test_no_directory(self):
        shutil.rmtree(self.lib)
        self.assert_without_shift(*self.run_env(), self.lib, "--libdir")

    def relink(self, target, name="libibverbs-distro.so.1"):
        os.unlink(self.path(name))
        os.symlink(target, self.path(name))

    def test_distro_leads_to_shift(self):
        for target in (OURS, os.path.join(self.make_library("second"), OURS)):
            self.relink(target)
            self.assert_without_shift(*self.run_env(), "leads to a SHIFT library")

    def test_distro_is_something_else(self):
        text = os.path.join(self.dir, "text")
        with open(text, "w", encoding="ascii") as f:
            f.write("not a library\n" * 100)
        for target in (text, "/nowhere", "/", sys.executable, "libibverbs-distro.so.1"):
            self.relink(target)
            self.assert_without_shift(*self.run_env(), "distro")

    def test_damaged_files(self):
        with open(self.path(OURS), "rb") as f:
            good = f.read()
        for size in (0, 1, 20, 64, 200, 1000):
            with open(self.path(OURS), "wb") as f:
                f.write(good[:size])
            self.assert_without_shift(*self.run_env(), self.path(OURS))
        # Nothing in the file may lead the reader outside it.
        for offset in range(0, min(len(good), 0x400), 9):
            bad = bytearray(good)
            bad[offset] ^= 0xff
            with open(self.path(OURS), "wb") as f:
                f.write(bad)
            got = shiftctl("run", "--libdir", self.lib, "no-such-command")
            self.assertEqual(got.returncode, 127, (offset, got.stderr))

    def test_ours_is_not_shift(self):
        shutil.copy(DISTRO, self.path(OURS))
        self.assert_without_shift(*self.run_env(), "not SHIFT's library")

    def test_dev_link_leads_elsewhere(self):
        self.relink(DISTRO, "libibverbs.so")
        self.assert_without_shift(*self.run_env(), "libibverbs.so", "ln -sf")

    def test_path_that_preload_cannot_carry(self):
        self.lib = self.make_library("with blank")
        self.assert_without_shift(*self.run_env(), "blank")


class BadOptions(Base):
    def test_kv(self):
        for url in ("bogus", "redis://", "lmdb:relative", "redis://h:99999"):
            self.assert_without_shift(*self.run_env("--kv", url), url, "HOST[:PORT]")
            self.assert_without_shift(*self.run_env(SHIFT_KV=url), url, "HOST[:PORT]")
        # The option wins over the variable.
        env, said = self.run_env("--kv", "redis://h:1", SHIFT_KV="bogus")
        self.assertEqual((said, env["SHIFT_KV"]), ("", "redis://h:1"))

    def test_backup_is_malformed(self):
        for text in ("=", "mlx5_0", ",", "mlx5_0==x", "a b=c"):
            self.assert_without_shift(*self.run_env("--backup", text), "backup map", "character")
            self.assert_without_shift(*self.run_env(SHIFT_BACKUP=text), "backup map")


class Doctor(Base):
    def test_without_library(self):
        os.unlink(self.path("libibverbs-distro.so.1"))
        got = shiftctl("doctor", "--libdir", self.lib)
        self.assertEqual(got.returncode, 1)
        self.assertIn("libibverbs-distro.so.1 is missing", got.stdout)
        self.assertIn("Nothing would be protected", got.stdout)

    def test_findings(self):
        got = shiftctl("doctor", "--libdir", self.lib, "--kv", "redis://127.0.0.1:1",
                       SHIFT_DISABLE="1", MLX5_QP_SIGNATURE="0")
        self.assertEqual(got.returncode, 1)
        for words in (f"underneath   ok   {os.path.realpath(DISTRO)}", "SHIFT_DISABLE=1",
                      "MLX5_QP_SIGNATURE is set", "redis at 127.0.0.1:1: cannot connect",
                      "version map  NO"):
            self.assertIn(words, got.stdout)

    def test_kv_file(self):
        kv = os.path.join(self.dir, "kv")
        got = shiftctl("doctor", "--libdir", self.lib, "--kv", f"lmdb:{kv}")
        self.assertIn(f"lmdb at {kv} answers", got.stdout)
        got = shiftctl("doctor", "--libdir", self.lib, SHIFT_KV="bogus")
        self.assertIn("kv           NO", got.stdout)


@unittest.skipUnless(SIMNICCTL, "the software device is not built")
class OnFabric(Base):
    """With devices: four NICs to a host."""

    def setUp(self):
        super().setUp()
        self.fabric = f"shiftctl-test-{os.getpid()}"
        self.create("--numa-nodes", "2")
        self.addCleanup(self.ctl, "destroy")
        self.before = (SIMNICCTL, "run", "--host", "h0", "--")

    def create(self, *args):
        self.ctl("create", "--hosts", "2", "--nics", "4", *args)

    def ctl(self, *args):
        subprocess.run([SIMNICCTL, *args], env={**CLEAN, "SIMNIC_FABRIC": self.fabric},
                       timeout=60, check=True)

    def doctor(self, *args):
        return shiftctl("doctor", *args, "--kv", f"lmdb:{self.dir}/kv", before=self.before,
                        SIMNIC_FABRIC=self.fabric)

    def test_unknown_device(self):
        self.assert_without_shift(
            *self.run_env("--backup", "mlx5_0=mlx5_9", before=self.before,
                          SIMNIC_FABRIC=self.fabric),
            "no device mlx5_9; there are mlx5_0, mlx5_1, mlx5_2, mlx5_3")
        env, said = self.run_env("--backup", "mlx5_0=mlx5_3", before=self.before,
                                 SIMNIC_FABRIC=self.fabric)
        self.assertEqual((said, env["SHIFT_BACKUP"]), ("", "mlx5_0=mlx5_3"))
        self.assertLess(env["LD_PRELOAD"].index("libsimnic"), env["LD_PRELOAD"].index(OURS))

    def backups(self, *args):
        """What doctor says of each device's backup."""
        return re.findall(r"^mlx5_\d .*; backup (mlx5_\d, [^;\n]*)", self.doctor(*args).stdout, re.M)

    def test_backups(self):
        near = "on the same NUMA node"
        self.assertEqual(self.backups("--backup", "pair"), [f"mlx5_{i}, {near}" for i in (1, 0, 3, 2)])
        self.assertEqual(self.backups("--backup", "spread"), [f"mlx5_{i}, {near} and 2 more" for i in (1, 0, 3, 2)])
        self.check_auto()
        self.ctl("destroy")
        self.create("--numa-nodes", "2", "--card-ports", "2")
        far = "on another NUMA node"
        self.assertEqual(self.backups("--backup", "pair"), [f"mlx5_{i}, {far}" for i in (2, 3, 0, 1)])
        self.assertNotIn("fails with it", self.doctor().stdout)
        self.ctl("destroy")
        self.create("--card-ports", "4")
        same = "another port of the same card"
        self.assertEqual(self.backups("--backup", "pair"), [f"mlx5_{i}, {same}" for i in (1, 0, 3, 2)])
        self.assertEqual(self.doctor().stdout.count("is on the same card and fails with it"), 4)
        self.ctl("destroy")
        self.ctl("create", "--hosts", "1", "--nics", "2")
        self.assertIn("backup       ok   auto: pair, as no NIC has two others like it", self.doctor().stdout)

    def check_auto(self):
        """Without --backup, too. Which of both it is, this process' limits say."""
        for text in ((), ("--backup", "auto")):
            said = self.doctor(*text).stdout
            spread = "backup       ok   auto: spread\n" in said
            tight = "backup       note auto: pair, as no more than" in said
            self.assertNotEqual(spread, tight)
            self.assertEqual("and 2 more" in said, spread)

    def test_little_memory(self):
        """Control queue pairs of four NICs alone are more than may be locked; root must not be let pass that."""
        before = self.before
        less = ["setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock"] if os.geteuid() == 0 else []
        self.before = (*before, "prlimit", "--memlock=8388608:8388608", *less)
        words = "backup       note SHIFT itself locks up to 10400 KiB on these NICs, of 8192 KiB"
        self.assertIn(words, self.doctor("--backup", "spread").stdout)
        self.assertNotIn("SHIFT itself locks", self.doctor("--backup", "pair").stdout)
        said = self.doctor().stdout
        self.assertNotIn("SHIFT itself locks", said)
        self.assertIn("backup       note auto: pair, as no more than 8192 KiB may be locked (ulimit -l), and spread wants 83200", said)
        self.assertNotIn("more", said.partition("mlx5_0")[2])

    def test_devices(self):
        self.ctl("fault", "port-down", "h0/mlx5_2")
        out = self.doctor("--libdir", self.lib, "--backup", "pair").stdout
        for words in ("mlx5_0       ok   mlx5, port active, Ethernet, LID 0; backup mlx5_1",
                      "gid 0: ::ffff:10.0.0.1 (RoCE v2)", "mlx5_1       ok", "mlx5_2       NO",
                      "mlx5_3       NO", "backup mlx5_2, on the same NUMA node; its backup's port "
                      "is not active"):
            self.assertIn(words, out)
        out = self.doctor("--libdir", self.lib, "--backup", "spread").stdout
        self.assertIn("mlx5_3       ok ", out)      # by the others
        out = self.doctor("--libdir", self.lib, "--backup", "mlx5_3=mlx5_1").stdout
        self.assertIn("mlx5_3       ok   mlx5, port active, Ethernet, LID 0; backup mlx5_1", out)
        self.assertIn("mlx5_0       NO", out)

    def engine(self, choice):
        return shiftctl("doctor", "--kv", f"lmdb:{self.dir}/kv", before=self.before,
                        SIMNIC_FABRIC=self.fabric, SHIFT_ENGINE=choice).stdout

    def test_engines(self):
        for choice, driven in (("auto", "mlx5"), ("mlx5", "mlx5"), ("ledger", "ledger")):
            out = self.engine(choice)
            self.assertIn(f"engine       ok   {choice}\n", out)
            self.assertIn(f"mlx5_0       ok   {driven}, port active", out)
        out = self.engine("bogus")
        self.assertIn("engine       NO   SHIFT_ENGINE=bogus is neither auto nor mlx5 nor ledger", out)
        self.assertEqual(out.count("SHIFT_ENGINE names no engine"), 4)

    @unittest.skipUnless(os.path.exists(os.path.join(os.path.dirname(SHIFTCTL),
                                                     "../lib/shift", OURS)),
                         "the drop-in is not built")
    def test_all_is_well(self):
        got = self.doctor()
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertIn("Would be protected: reliable connections on mlx5_0 mlx5_1 mlx5_2 mlx5_3",
                      got.stdout)
        self.assertNotIn(" NO ", got.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
