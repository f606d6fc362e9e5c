#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""In the place of the system's libibverbs.so.1, which every verbs program loads, SHIFT keeps out of all
that the settings file does not name; whoever asks for it has it all the same.

  system_wide.py --build DIR [CASE...]
"""
import os
import shutil
import sys

from shiftlab.lab import Shift, cases_main, free_port, wait_for
from shiftlab.perftest import Failed

BW = "ib_write_bw"
RUN_SAYS = "set for NCCL, UCX and MPI:"     # of shiftctl run: the variables are the same for all ranks, without SHIFT too
RETRY = 16      # eight times 0.27 s: a peer that is not scheduled for half a second is not lost


def check(truth, what):
    if not truth:
        raise Failed(what)


def library(lab):
    """As the package lays it out: the library in one folder, the link to the one underneath below it."""
    private, folder = os.path.join(lab.out, "lib", "shift"), os.path.join(lab.folder, "system")
    below = os.path.join(folder, "shift")
    os.makedirs(below)
    shutil.copy(os.path.join(private, "libibverbs.so.1"), folder)
    shutil.copy(os.path.join(private, "libibverbs-distro.so.1"), below, follow_symlinks=False)
    return folder


def settings(lab, *lines):
    with open(lab.conf, "w", encoding="ascii") as f:
        f.write("".join(line + "\n" for line in lines))


def pair(lab, shift):
    argv = [BW, "-d", "mlx5_0", "-x", "0", "-F", "-D", 60, "-u", RETRY, "-p", free_port()]
    server = lab.start("h0", argv, "server", shift)
    server.await_listening()
    return server, lab.start("h1", argv + ["127.0.0.1"], "client", shift)


def carries(lab, ends, nic):
    before = lab.carried(nic)

    def more():
        for p in ends:
            check(p.running(), f"{p.name} ended\n{p.tail()}")
        return lab.carried(nic) > before

    wait_for(f"traffic over mlx5_{nic}", more, 30)


def maps(p):
    with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
        return f.read()


def protected(lab, shift):
    ends = pair(lab, shift)
    for p in ends:
        wait_for("protection of " + p.name, lambda p=p: lab.protected(p), 30)
    lab.fault("port-down", "h0/mlx5_0")
    carries(lab, ends, 1)


def untouched(lab, shift, folder=None):
    """It works, and SHIFT does nothing in it: no thread, nothing in status, an error when its NIC fails."""
    ends = pair(lab, shift)
    carries(lab, ends, 0)
    for p in ends:
        check(not folder or folder in maps(p), f"{p.name} did not load the library")
        names = {open(f"/proc/{p.pid}/task/{t}/comm", encoding="ascii").read().strip()
                 for t in os.listdir(f"/proc/{p.pid}/task")}
        check("shift" not in names, f"{p.name} has the threads {names}")
        lines = [line for line in lab.shift_log(p).splitlines() if RUN_SAYS not in line]
        check(not lines, f"{p.name} logged {lines}")
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("end of the client", lambda: not ends[1].running(), 60)
    check("status 12" in ends[1].err() + ends[1].out(), f"the client ended otherwise\n{ends[1].tail()}")


def nothing_by_default(lab):
    folder = library(lab)
    untouched(lab, Shift(way="path", libdir=folder, log="info"), folder)


def others_named(lab):
    folder = library(lab)
    settings(lab, "SHIFT_PROGRAMS = ib_send_bw, /opt/*/ib_write_bw")
    untouched(lab, Shift(way="path", libdir=folder, log="info"), folder)


def named(lab):
    settings(lab, "# ours", "SHIFT_PROGRAMS = trainer ib_write_*")
    protected(lab, Shift(way="path", libdir=library(lab), log="info"))


def asked_for(lab):
    protected(lab, Shift(way="path", libdir=library(lab), log="info", enable=1))


def launched(lab):
    """shiftctl run asks for it."""
    settings(lab, "SHIFT_LOG = info")
    protected(lab, Shift())


def switched_off(lab):
    """For the whole host, whatever is asked for."""
    settings(lab, "SHIFT_DISABLE = 1", "SHIFT_PROGRAMS = *")
    untouched(lab, Shift(log="info"))


OPENS = """
import _ctypes, ctypes, shutil, sys
for path in sys.argv[1:]:
    shutil.copy(_ctypes.__file__, path)
    ctypes.CDLL(path)
verbs, n = ctypes.CDLL("libibverbs.so.1"), ctypes.c_int()
verbs.ibv_get_device_list.restype = verbs.ibv_open_device.restype = ctypes.c_void_p
devices = ctypes.cast(verbs.ibv_get_device_list(ctypes.byref(n)), ctypes.POINTER(ctypes.c_void_p))
for i in range(n.value):
    assert verbs.ibv_open_device(ctypes.c_void_p(devices[i]))
"""


def warnings(lab, shift, *libraries, of=" runs without ", **env):
    """The lines `of` that SHIFT logs in a program with libraries of these names, which opens two devices."""
    paths = [os.path.join(lab.folder, name) for name in libraries]
    env = {**env, "HOME": lab.folder, "UCX_CONFIG_DIR": lab.folder}
    program = lab.run("h0", [sys.executable, "-c", OPENS, *paths], shift=shift, env=env)
    check(not program.process.returncode, program.tail())
    return [line for line in (program.err() + lab.shift_log(program)).split("\n") if of in line]


def of_mpi(lab):
    """One line of an MPI job over UCX names the variable that its user may have to set."""
    def said_by(*libraries, shift=Shift(), **env):
        return warnings(lab, shift, *libraries, of="if this MPI job", **env)
    check(len(said_by("libuct_ib.so.0", OMPI_COMM_WORLD_RANK="0")) == 1, "the first rank, by shiftctl run")
    check(len(said_by("libuct_ib.so.0", shift=Shift(way="preload"), PMI_RANK="0")) == 1, "the first rank, preloaded")
    check(not said_by("libuct_ib.so.0", OMPI_COMM_WORLD_RANK="1"), "another rank")
    check(not said_by("libuct_ib.so.0"), "no MPI job")
    check(not said_by(OMPI_COMM_WORLD_RANK="0"), "MPI without UCX")
    check(not said_by("libuct_ib.so.0", OMPI_COMM_WORLD_RANK="0", UCX_ATOMIC_MODE="device"), "it is set, whatever to")


def variables(lab):
    """Started otherwise than by shiftctl run, a program has to be told what its libraries lack."""
    shift = Shift(way="preload")
    check(not warnings(lab, shift), "a program without NCCL and UCX is warned")
    said = warnings(lab, shift, "libuct_ib.so.0", "libnccl.so.2")
    check(len(said) == 2, said)
    ucx, nccl = said if "UCX runs" in said[0] else reversed(said)
    check("UCX_TLS=^rc_x" in ucx and "/etc/ucx/ucx.conf" in ucx and "shiftctl run" in ucx, said)
    check("NCCL_PROTO=^LL128" in nccl and "/etc/nccl.conf" in nccl, said)
    said = warnings(lab, shift, "libuct_ib.so.0", "libnccl.so.2", SHIFT_LL128="on")
    check(len(said) == 1 and "UCX runs" in said[0], said)
    check(not warnings(lab, shift, "libuct_ib.so.0", "libnccl.so.2", SHIFT_ENV="off"), "SHIFT_ENV=off")
    check(not warnings(lab, Shift(), "libuct_ib.so.0", "libnccl.so.2"), "shiftctl run")
    with open(os.path.join(lab.folder, "ucx.conf"), "x", encoding="ascii") as f:
        f.write("UCX_TLS = ^rc_x\nUCX_RC_MAX_NUM_EPS=inf\nUCX_IB_MLX5_DEVX=n\nUCX_FENCE_MODE=weak\n")
    check(not warnings(lab, shift, "libuct_ib.so.0"), "UCX's file")


CASES = {f.__name__: f for f in (nothing_by_default, others_named, named, asked_for, launched, switched_off, of_mpi, variables)}

if __name__ == "__main__":
    sys.exit(cases_main(CASES, lambda lab, name: CASES[name](lab)))
