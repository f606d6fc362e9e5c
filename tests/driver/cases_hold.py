# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What SHIFT's holders rely on (shiftlib/base/holder.h), on the kernel itself."""
import ctypes
import glob
import os
import subprocess

import belief
from cases_belief import TIMEOUT_S
from shiftlab.guest.cases import case, check

PIDFD_GETFD = 438


def files(pid):
    """The descriptors of a process that are RDMA devices."""
    return [int(os.path.basename(path)) for path in glob.glob(f"/proc/{pid}/fd/*")
            if os.readlink(path).startswith("/dev/infiniband/uverbs")]


def duplicate(pid, fd):
    """Another process' descriptor, as one of this process."""
    process = os.pidfd_open(pid)
    own = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, fd, 0)
    os.close(process)
    check(own >= 0, f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
    return own


def hold(pid):
    """A shell that has the files of a process until its input ends, as SHIFT's holder."""
    fds = [duplicate(pid, fd) for fd in files(pid)]
    check(fds, "nic_calls has no device open")
    shell = subprocess.Popen(["sh", "-c", "read -r end"],       # pylint: disable=consider-using-with
                             pass_fds=fds, stdin=subprocess.PIPE, start_new_session=True)
    for fd in fds:
        os.close(fd)
    return shell


@case("hold.hang_exit")
def hang_exit(rig):
    """A program ends at once though its NIC hangs and it has objects there, as another process has its files."""
    program = rig.launch("nic_calls", [rig.bin("nic_calls"), rig.nic.name, "0"], rig.env(), stdin=True)
    session = belief.Session(program, rig.breaks, TIMEOUT_S)
    session.await_said("ready", lambda: session.count("ready", rig.nic.name), 60)
    hold(program.pid)
    row = session.run((belief.Break("hang"), belief.Exit()))
    rig.breaks("resume")    # the guest's next cases have this NIC as a backup
    check(not row["exit_slow"], f"its exit took {row['times']['exit']:g} s")
    return f"exit after {row['times']['exit']:g} s"
