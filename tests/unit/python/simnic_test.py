#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The package simnic: hosts, programs on them, faults, what is left behind, what is said of mistakes. And the examples of
docs/simnic.md, as they stand there: with pytest, where that is installed.

usage: simnic_test.py SIMNICCTL
"""
import importlib.util
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

import simnic

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../../docs/simnic.md")


def fabrics():
    """The names of all that is in the machine's shared memory."""
    return set(os.listdir("/dev/shm"))


def alive(pid):
    """Whether a process runs: one that has ended and waits for its parent does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Hosts(unittest.TestCase):
    def test_each_host_has_its_nics(self):
        with simnic.fabric(hosts=3, nics=1) as f:
            self.assertEqual((f.hosts, f.nics), (["h0", "h1", "h2"], ["mlx5_0"]))
            for host in f.hosts:
                self.assertRegex(f.run(host, "ibv_devices").stdout, r"mlx5_0")
            self.assertNotIn("mlx5_1", f.run("h0", "ibv_devices").stdout)

    def test_the_link_layer_is_as_asked(self):
        with simnic.fabric(link_layer="ib") as f:
            self.assertRegex(f.run("h0", "ibv_devinfo").stdout, r"link_layer:\s+InfiniBand")

    def test_two_fabrics_know_nothing_of_each_other(self):
        with simnic.fabric() as a, simnic.fabric() as b:
            a.fault("port-down", "h0/mlx5_0")
            self.assertEqual([f.nic("h0/mlx5_0")["port_up"] for f in (a, b)], [False, True])

    def test_nothing_stays(self):
        before = fabrics()
        with simnic.fabric() as f:
            self.assertTrue(fabrics() - before)
            child = f.start("h0", "sh", "-c", "sleep 1000 & echo $!; wait")
            grandchild = int(child.expect(r"^\d+$").group())
            self.assertTrue(alive(child.pid) and alive(grandchild))
        self.assertFalse(alive(child.pid) or alive(grandchild))
        self.assertEqual(fabrics(), before)
        f.close()   # again

    def test_a_test_that_fails_leaves_nothing_either(self):
        before = fabrics()
        with self.assertRaises(ZeroDivisionError):
            with simnic.fabric() as f:
                f.start("h0", "sleep", "1000")
                raise ZeroDivisionError
        self.assertEqual(fabrics(), before)

    def test_a_program_that_hears_no_sigterm_ends(self):
        grace, simnic.GRACE_S = simnic.GRACE_S, 0.05
        self.addCleanup(setattr, simnic, "GRACE_S", grace)
        with simnic.fabric() as f:
            deaf = f.start("h0", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
            deaf.expect("ready")
        self.assertFalse(alive(deaf.pid))


class Programs(unittest.TestCase):
    def setUp(self):
        self.f = simnic.fabric()
        self.addCleanup(self.f.close)

    def test_output_and_status_come_back(self):
        done = self.f.run("h0", "sh", "-c", "echo out; echo err >&2; exit 3", check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "out\n", "err\n"))

    def test_variables_are_set_for_it_alone(self):
        self.assertEqual(self.f.run("h0", "sh", "-c", "echo $COLOUR", env={"COLOUR": "red"}).stdout, "red\n")
        self.assertNotIn("COLOUR", os.environ)

    def test_data_goes_between_hosts_and_a_dead_port_stops_it(self):
        port = simnic.free_port()
        argv = ("ibv_rc_pingpong", "-d", "mlx5_0", "-g", "0", "-n", "100", "-p", str(port))
        server = self.f.start("h0", *argv)
        server.await_port(port)
        said = self.f.run("h1", *argv, "127.0.0.1").stdout
        self.assertRegex(said, "100 iters")
        self.assertRegex(server.wait().stdout, "100 iters")
        self.assertGreater(self.f.nic("h1/mlx5_0")["tx_messages"], 99)
        self.f.fault("port-down", "h1/mlx5_0")
        self.assertFalse(self.f.nic("h1/mlx5_0")["port_up"])
        self.assertRegex(self.f.run("h1", "ibv_devinfo", "-d", "mlx5_0").stdout, "PORT_DOWN")
        self.f.heal()
        self.assertTrue(self.f.nic("h1/mlx5_0")["port_up"])

    def test_a_fault_may_wait_and_end_by_itself(self):
        self.f.fault("switch-down", "rail1", after=1000)
        self.assertEqual(len(self.f.status()["scheduled"]), 1)
        self.f.fault("lose-tx", "h0/mlx5_0", at_message=5, lasts=0.5)
        self.assertEqual(len(self.f.status()["scheduled"]), 2)

    def test_any_command_of_simnicctl(self):
        self.f.ctl("mtu", "h0/mlx5_0", "1024")
        self.assertRegex(self.f.run("h0", "ibv_devinfo", "-d", "mlx5_0").stdout, r"active_mtu:\s+1024")


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.f = simnic.fabric()
        self.addCleanup(self.f.close)

    def error(self, pattern, call, *args, **kwargs):
        with self.assertRaisesRegex(simnic.Error, pattern):
            call(*args, **kwargs)

    def test_what_is_not_there_is_named(self):
        self.error("no host 'h7': the fabric has h0, h1", self.f.run, "h7", "true")
        self.error("no-such-program: no such program", self.f.run, "h0", "no-such-program")
        self.error("no command for h0", self.f.run, "h0")
        self.error("no fault 'rain'", self.f.fault, "rain", "h0/mlx5_0")
        self.error("h9/mlx5_0", self.f.fault, "port-down", "h9/mlx5_0")
        self.error("no NIC 'h0/mlx4_0'", self.f.nic, "h0/mlx4_0")
        self.error("hosts", simnic.fabric, hosts=1000)

    def test_a_name_is_taken_once(self):
        self.error(self.f.name, simnic.fabric, name=self.f.name)
        self.f.run("h0", "true")    # the first one lives

    def test_a_bad_end_tells_what_was_said(self):
        self.error("ended with 3; it said:\nout\nerr", self.f.run, "h0", "sh", "-c", "echo out; echo err >&2; exit 3")
        self.error(f"ended with -{int(signal.SIGSEGV)}", self.f.run, "h0", "sh", "-c", "kill -SEGV $$")

    def test_time_has_an_end(self):
        self.error(r"did not end within 1 s; it said:\nhere", self.f.run, "h0", "sh", "-c", "echo here; sleep 1000",
                   timeout=1)
        program = self.f.start("h0", "sleep", "1000")
        self.error(r"did not say 'word' within 0.1 s", program.expect, "word", timeout=0.1)
        self.error("did not listen on port 1 within 0.1 s", program.await_port, 1, timeout=0.1)
        self.error("ended with 0 and did not say 'word'", self.f.start("h0", "echo", "else").expect, "word")

    def test_a_closed_fabric_runs_nothing(self):
        self.f.close()
        self.error("is closed", self.f.run, "h0", "true")

    def test_no_simnicctl(self):
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = "/nowhere"
        self.error("no simnicctl in PATH", simnic.fabric)


def example(language, start):
    """A block of the page: the first of this language that begins so."""
    with open(PAGE, encoding="utf-8") as f:
        for block in re.findall(rf"```{language}\n(.*?)```", f.read(), re.S):
            if block.startswith(start):
                return block
    raise AssertionError(f"{PAGE} has no block of {language} that begins with {start!r}")


class Examples(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("pytest"), "no pytest here")
    def test_the_test_of_the_page_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "test_rdma.py"), "w", encoding="utf-8") as f:
                f.write(example("python", "import simnic"))
            path = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])
            done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "simnic._pytest", "-p", "no:cacheprovider"],
                                  cwd=folder, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("2 passed", done.stdout)

    def test_the_workflow_runs_what_is_there(self):
        steps = re.findall(r"run: (.*)", example("yaml", "name:"))
        self.assertTrue(any("pip install" in step for step in steps), steps)
        self.assertTrue(any("pytest" in step for step in steps), steps)


if __name__ == "__main__":
    os.environ["PATH"] = os.path.dirname(os.path.abspath(sys.argv.pop(1))) + os.pathsep + os.environ["PATH"]
    unittest.main()
