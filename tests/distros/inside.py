#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What becomes of one build in a userland that did not build it: its libibverbs, libmlx5, perftest, Redis, dpkg and
Python. Only for the root that distros.py has entered. Prints a line CELL and JSON for each case that was asked for.

  inside.py --build DIR --packages DIR [--environments N] [--pythons DIR:...] CASE...
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import time
import urllib.request

from shiftlab.lab import Lab, Shift, wait_for
from shiftlab.perftest import Perftest
from shiftlab.redis import Redis

TESTS = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
FLOOR_APP = "shipped_floor_app"
PROGRAMS = ("shiftctl", "simnicctl", "shift-exporter", "shift-probe", "sdr_perf", FLOOR_APP)
LIBRARIES = ("shift/libibverbs.so.1", "shift/librdmacm.so.1", "shift/modules/libshift-redis.so", "libsimnic.so",
             "libsdr.so.1")
STEPS = "private,taken,named,disabled,pingpong,distro_again,ours_again,removed"
SKIPPED = 77
LONG_S = 900


class Skip(Exception):
    """With its reason."""


def check(truth, what):
    if not truth:
        raise RuntimeError(what)


def why(text):
    """The line that says what failed."""
    lines = text.strip().splitlines() or ["it says nothing"]
    return next((line for line in lines if re.match(r"FAILED|AssertionError|FAIL:", line)), lines[-1])


def said(argv, env=None, limit=60):
    """What it prints; it ends well."""
    done = subprocess.run([str(a) for a in argv], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=limit, check=False)
    check(done.returncode in (0, SKIPPED), f"{why(done.stdout)}\n{' '.join(map(str, argv))}: exit {done.returncode}\n"
          f"{done.stdout}")
    if done.returncode == SKIPPED:
        raise Skip(done.stdout.strip().splitlines()[-1])
    return done.stdout


def python(script, *argv):
    """Another test; what it prints is also printed here."""
    text = said([sys.executable, os.path.join(TESTS, script), *argv], limit=LONG_S)
    print(text, end="", flush=True)
    return text


def cable(lab, begin):
    if begin:
        lab.fault("cable-down", "h1/mlx5_0")
    else:
        lab.ctl("heal", "h1/mlx5_0")


# ---- cases: each returns what is to be said of it -----------------------------------------------------------

def check_linked(lab):
    paths = [os.path.join(lab.out, "bin", name) for name in PROGRAMS]
    paths += [os.path.join(lab.out, "lib", name) for name in LIBRARIES]
    for path in paths:
        text = said(["ldd", "-r", path], env={**os.environ, "LD_LIBRARY_PATH": os.path.join(lab.out, "lib")})
        wrong = re.findall(r"\S.*(?:not found|undefined symbol).*", text)
        check(not wrong, f"{path}: {'; '.join(wrong[:3])}")
    check(said([os.path.join(lab.out, "bin", FLOOR_APP)]) == "destructed\n", FLOOR_APP)
    return len(paths)


def check_opened(lab, way):
    """A program that finds libibverbs by its name has SHIFT, with the distribution's below it, every symbol bound."""
    script = ("import ctypes; n = ctypes.c_int(); lib = ctypes.CDLL('libibverbs.so.1')\n"
              "lib.ibv_get_device_list(ctypes.byref(n)); print(n.value); print(open('/proc/self/maps').read())")
    program = lab.run("h0", [sys.executable, "-c", script], shift=Shift(way, log="info"), env={"LD_BIND_NOW": "1"})
    text = program.out()
    check(text.startswith("2\n") and "/lib/shift/libibverbs.so.1" in text and "linux-gnu/libibverbs.so.1." in text,
          program.tail(40))
    complaints = re.findall(r"^shift: (?:warning|error).*", lab.shift_log(program) + program.err(), re.M)
    check(not complaints, complaints)


def check_exporter(lab):
    argv, env = lab.command("h0", [os.path.join(lab.out, "bin", "shift-exporter"), "--listen", "127.0.0.1:0"], "exporter")
    exporter = lab.launch("exporter", argv, env)
    address = wait_for("address", lambda: re.search(r"127\.0\.0\.1:\d+", exporter.err()), 20).group()
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as page:
        check("shift_processes" in page.read().decode(), "no metrics")


def loads(lab):
    n = check_linked(lab)
    for way in ("shiftctl", "path", "preload"):
        check_opened(lab, way)
    check_exporter(lab)
    told = lab.ctl("run", "--host", "h0", "--", os.path.join(lab.out, "bin", "shiftctl"), "version")
    return f"{n} files; " + re.search(r"^libibverbs +(.*)$", told, re.M).group(1)


def moved(lab, tool, qps=1, **settings):
    """Through a cable that is cut, and back."""
    moves = Perftest(tool, cable, qps, **settings).run(lab)
    return f"{len(moves)} moves of connections"


def pingpong(lab):
    return moved(lab, "ibv_rc_pingpong -c -s 1048576 -n 20000")


def write_bw(lab):
    return moved(lab, "ib_write_bw -q 2", qps=2)


def redis(lab):
    """The introduction by this suite's Redis, signed with a secret; and by TLS."""
    secret = os.path.join(lab.folder, "secret")
    with open(secret, "x", encoding="ascii") as f:
        f.write("a secret of more than thirty-two characters\n")
    os.chmod(secret, 0o600)
    server = Redis(lab).start()
    lab.kv = server.url
    text = moved(lab, "ib_write_bw", secret_file=secret)
    check(server.calls().get("set", 0), f"nothing was put there: {server.calls()}")
    python("unit/kvclient/tls_test.py", os.path.join(lab.out, "bin", "shiftctl"))
    return f"{text}; TLS; " + re.search(r"v=\S+", said(["redis-server", "--version"])).group()


def doctor(_):
    """Its verdict against what then happens."""
    drawn = ["--drawn", args.environments] if args.environments else []
    return python("e2e/doctor.py", "--build", args.build, *drawn).strip().splitlines()[-1] + " environments"


def packages(_):
    debs = glob.glob(os.path.join(args.packages, "*.deb"))
    if not debs:
        raise Skip(f"no packages in {args.packages}; make deb makes them")
    text = python("packages/inside.py", "--debs", args.packages, "--cut", "none", "--steps", STEPS)
    return text.strip().splitlines()[-1]


def wheel(_):
    wheels = glob.glob(os.path.join(args.packages, f"*_{os.uname().machine}.whl"))
    if not wheels:
        raise Skip(f"no wheel in {args.packages}; make wheel makes it")
    pythons = sorted(p for p in glob.glob("/usr/bin/python3.*") if re.fullmatch(r"python3\.\d+", os.path.basename(p)))
    pythons += [os.path.join(folder, "bin", "python3") for folder in args.pythons.split(":") if folder]
    python("packages/wheel_test.py", "--wheel", wheels[0], *pythons)
    return ", ".join(said([p, "--version"]).strip() for p in pythons)


def pyverbs(_):
    """The python tests of this rdma-core: nothing is worse with SHIFT. The page of it goes beside the log."""
    text = said([sys.executable, os.path.join(TESTS, "pyverbs", "run_pyverbs.py"), "--build", args.build, "--write",
                 os.path.join(os.path.dirname(args.packages), "pyverbs.md"), "--results",
                 os.path.join(os.path.dirname(args.packages), "pyverbs-results.txt")], limit=LONG_S)
    print(text, flush=True)
    return "; ".join(re.findall(r"^(?:stock|shift): .*|^worse with SHIFT: .*", text, re.M))


# What changes the system comes last.
CASES = {case.__name__: case for case in (loads, pingpong, write_bw, redis, doctor, pyverbs, wheel, packages)}


def run(name):
    """(fate, what to say of it)"""
    try:
        with Lab(args.build) as lab:
            try:
                text = CASES[name](lab)
            except Skip as e:
                return "skipped", str(e)
            check(not lab.complaints(), lab.complaints())
            return "PASS", text
    except Exception as e:
        print(f"FAILED {name}: {e}", flush=True)
        return "FAIL", str(e).strip().splitlines()[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--packages", required=True)
    parser.add_argument("--environments", metavar="N", help="so many of doctor's, drawn (all)")
    parser.add_argument("--pythons", default="", help="folders of more Pythons for the wheel, with colons between them")
    parser.add_argument("cases", nargs="+", choices=CASES)
    args = parser.parse_args()
    for case in args.cases:
        print(f"== {case}", flush=True)
        began = time.monotonic()
        fate, detail = run(case)
        print("CELL " + json.dumps({"case": case, "fate": fate, "text": detail,
                                    "seconds": round(time.monotonic() - began, 1)}), flush=True)
