#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the RPMs do to a system, by rpm itself, in a root of its own (rpm_root.py): installation, upgrades of libibverbs and
of SHIFT, refusals, removal, and what the loader then finds. Needs root, rpm and rpmbuild; says why where it cannot run.

usage: rpm_test.py --rpms FOLDER [STEP...]
"""
import argparse
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import rpm_traffic
from cuts import cut
from rpm_root import HERE, LIB, VERBS, Failed, base, build, development, libibverbs, listed, real, run, utilities
from shiftlab.lab import Stuck

SHIFT = f"{LIB}/shift/system/libibverbs.so.1"
STOCK, NEXT = "44.0", "48.0"
NEXT_FILE = "libibverbs.so.1.14.48.0"
TOOLS = ("rpm", "rpmbuild", "rpm2archive", "cc", "ldconfig", "unshare", *VERBS)
WORK = os.path.dirname(os.path.abspath(__file__))


def check(truth, what):
    if not truth:
        raise Failed(what)


class System:
    """The root, and the packages for it."""

    def __init__(self, folder, rpms):
        self.folder, self.rpms, self.root = folder, rpms, os.path.join(folder, "root")
        self.made = {}
        os.mkdir(self.root)

    def ours(self, name):
        found = [p for p in glob.glob(os.path.join(self.rpms, name + "-[0-9]*.rpm")) if not p.endswith(".src.rpm")]
        check(len(found) == 1, f"packages named {name}: {found}")
        return found[0]

    def distro(self, version):
        if version not in self.made:
            self.made[version] = libibverbs(self.folder, version, NEXT_FILE if version == NEXT else None)
        return self.made[version]

    def rpm(self, *argv, status=0):
        return run("rpm", "--root", self.root, "--dbpath", "/var/lib/rpm", "--nosignature", *argv, status=status)

    def cut(self, argv, at=None):
        """As rpm(), to be killed; rpm is below its root when it counts, so the counter has the same name there."""
        counter = os.path.join(self.folder, "count")
        if not os.path.exists(counter):
            os.makedirs(self.root + self.folder)
            with open(counter, "wb") as f:
                f.write(bytes(8))
            os.link(counter, self.root + counter)
        command = ["rpm", "--root", self.root, "--dbpath", "/var/lib/rpm", "--nosignature", *argv]
        return cut(command, os.path.join(self.folder, "cut.so"), counter, at)

    def inside(self, *argv):
        return run("chroot", self.root, *argv, env={"PATH": "/usr/bin:/usr/sbin"})

    def cached(self, name):
        """The file that the loader's cache has for a name, the first one."""
        found = re.findall(rf"^\s*{re.escape(name)} \(.*\) => (\S+)$", self.inside("ldconfig", "-p"), re.M)
        return found[0] if found else None

    def loaded(self, *command):
        """{name: file} of the libibverbs that a verbs program maps, started by a command."""
        loader = glob.glob(self.root + LIB + "/ld-linux*")[0][len(self.root):]
        said = self.inside(*command, loader, "--list", "/usr/bin/ibv_devices")
        paths = re.findall(r"(/\S+/libibverbs\S*) \(0x", said)
        found = {os.path.basename(path): path for path in paths}
        check(found, f"no libibverbs is loaded: {said}")
        return found

    def opened(self, name):
        return self.inside("opener", name).split()[0]

    def state(self):
        """Every file outside of rpm's database, and the loader's view."""
        lines = []
        for path in sorted(listed(self.root)):
            full = self.root + path
            if path.startswith(("/var/lib/rpm/", "/var/cache/", self.folder)) or path == "/etc/ld.so.cache":
                continue
            if os.path.islink(full):
                lines.append(f"{path} -> {os.readlink(full)}")
            else:
                with open(full, "rb") as f:
                    lines.append(f"{path} {os.lstat(full).st_mode:o} {hashlib.sha256(f.read()).hexdigest()}")
        folders = sorted(os.path.relpath(top, self.root) for top, _, _ in os.walk(self.root))
        return lines + [f for f in folders if re.search("usr.*shift", f)] + [self.inside("ldconfig", "-p")]


def check_stock(system, what):
    for name in ("libibverbs.so.1", "libibverbs.so"):
        check(system.cached(name) == f"{HERE}/{name}", f"{what}: {name} is {system.cached(name)} in the cache")
        check("/shift/" not in system.opened(name), f"{what}: {name} is opened as {system.opened(name)}")
    check(list(system.loaded()) == ["libibverbs.so.1"], f"{what}: a program loads {system.loaded()}")


def check_shift(system, library, what):
    """In front of this file of the distribution, by both names, for programs that are linked or open it."""
    for name in ("libibverbs.so.1", "libibverbs.so"):
        check(system.cached(name) == f"{LIB}/shift/system/{name}", f"{what}: {name} is {system.cached(name)} in the cache")
        check(system.opened(name).startswith(f"{LIB}/shift/system/"), f"{what}: {name} is opened as {system.opened(name)}")
    found = system.loaded()
    check(found.get("libibverbs.so.1") == SHIFT, f"{what}: a program loads {found}")
    below = found.get("libibverbs-distro.so.1")
    check(below == f"{LIB}/shift/libibverbs-distro.so.1", f"{what}: beneath lies {below}")
    check(os.path.basename(os.path.realpath(system.root + below)) == library, f"{what}: beneath lies another file than {library}")


def check_state(system, before, what):
    now = system.state()
    check(now == before, f"{what}: not as before\n" + "\n".join(sorted(set(now) ^ set(before))))


def stock_file():
    return os.path.basename(real("libibverbs.so.1"))


# ---- steps: each begins where the one before it ended ---------------------------------------------------

def plugin(system):
    """nccl-net-sdr needs nothing of SHIFT: any user's program opens the plugin by its name, as NCCL does."""
    before = system.state()
    system.rpm("-i", system.ours("nccl-net-sdr"))
    check(os.path.isfile(f"{system.root}{LIB}/libnccl-net-sdr.so"), "no plugin is installed")
    said = run("chroot", "--userspec=65534:65534", system.root, "/usr/bin/opener", "libnccl-net-sdr.so")
    check("/libibverbs.so.1" in said and "/shift/" not in said and "\nused" in said, "the plugin, opened: " + said)
    check("worth it" in system.inside("sdr_perf", "model", "--nccl", "--rate", "10G", "--rtt", "25ms", "--loss", "1e-3"), "sdr_perf")
    check(not system.rpm("-V", "nccl-net-sdr").strip(), "rpm --verify of nccl-net-sdr")
    system.rpm("-e", "nccl-net-sdr")
    check_state(system, before, "nccl-net-sdr removed")


def private(system):
    """shift-rdma alone: nothing changes for a program that does not ask; shiftctl run reaches SHIFT."""
    system.rpm("-i", system.ours("shift-rdma"))
    check_stock(system, "shift-rdma alone")
    who = system.rpm("-q", "--whatprovides", "libibverbs.so.1()(64bit)").split()
    check(len(who) == 1 and who[0].startswith("libibverbs-" + STOCK), f"libibverbs.so.1 is provided by {who}")
    said = system.inside("shiftctl", "version")
    check("rdma-core" in said and f"{LIB}/shift/libibverbs.so.1" in said, said)
    found = system.loaded("shiftctl", "run", "--")
    check(f"{LIB}/shift/libibverbs-distro.so.1" in found.values(), f"under shiftctl run: {found}")


def taken(system):
    """libibverbs-shift: every program loads it, one with more rights than its user, too."""
    system.rpm("-i", system.ours("libibverbs-shift"))
    check_shift(system, stock_file(), "installed")
    system.inside("ldconfig")
    check_shift(system, stock_file(), "after one more ldconfig")
    program = system.root + "/usr/bin/privileged"
    shutil.copy(os.path.join(system.folder, "opener"), program)
    os.chmod(program, 0o4755)
    said = run("chroot", "--userspec=65534:65534", system.root, "/usr/bin/privileged")
    check(said.startswith(SHIFT), "setuid: " + said)
    os.remove(program)
    check(not system.rpm("-V", "shift-rdma", "libibverbs-shift", "libibverbs").strip(), "rpm --verify")


def traffic(system):
    """ibv_rc_pingpong, named in /etc/shift.conf and with no variable set, outlives a dead port, over simnic."""
    system.rpm("-i", system.ours("simnic"))
    rpm_traffic.outlives(system)
    system.rpm("-e", "simnic")


def distro_again(system):
    """libibverbs is upgraded, its file has another name; and the old one again. Nothing of SHIFT has to run for it."""
    system.rpm("-U", system.distro(NEXT))
    check_shift(system, NEXT_FILE, "libibverbs upgraded")
    system.inside("ldconfig")
    check_shift(system, NEXT_FILE, "libibverbs upgraded, ldconfig")
    system.rpm("-U", "--oldpackage", system.distro(STOCK))
    check_shift(system, stock_file(), "libibverbs downgraded")


def versions(system):
    """What was tried is taken, by MLNX_OFED's numbers, too; what is older or newer is refused, and changes nothing."""
    for version in ("33.2", "54mlnx1", "58mlnx43", "65.0", STOCK):
        system.rpm("-U", "--oldpackage", system.distro(version))
    before = system.state()
    for version in ("32.0", "66.0", "2410mlnx54"):
        said = system.rpm("-U", "--oldpackage", system.distro(version), status=1)
        check("conflicts with" in said, said)
    check_state(system, before, "a refused libibverbs")


def next_release(system):
    """Packages of the same files and scriptlets, the next release."""
    tree = os.path.join(system.folder, "next")
    os.mkdir(tree)
    for name in ("shift-rdma", "libibverbs-shift", "simnic"):
        with open(system.ours(name), "rb") as f:
            archive = subprocess.run(["rpm2archive", "-n"], stdin=f, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-xf", "-", "-C", tree], input=archive, check=True)
    with open(os.path.join(WORK, "../../rpm/shift-rdma.spec"), encoding="utf-8") as f:
        spec = f.read()
    spec = re.sub(r"^Release: .*$", "Release: 99", spec, flags=re.M)
    copy = f"%global __os_install_post %{{nil}}\n%install\ncp -a {tree}/. %{{buildroot}}\n"
    spec = re.sub(r"^%prep$.*?^(?=%post )", copy, spec, flags=re.M | re.S)
    spec = re.sub(r"^%(license|doc) .*$", "", spec, flags=re.M)
    spec = spec.replace("%files\n", "%files\n/usr/share/doc/*\n/usr/share/licenses/*\n", 1)
    return [path for path in build(spec, system.folder) if "simnic" not in path]


def ours_again(system):
    """SHIFT is upgraded under a running program, which keeps what it has; and the old one again."""
    running = subprocess.Popen(["chroot", system.root, "/usr/bin/opener"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    check(running.stdout.readline().strip() == SHIFT, "a program does not run under SHIFT")
    system.rpm("-U", *next_release(system))
    check_shift(system, stock_file(), "SHIFT upgraded")
    with open(f"/proc/{running.pid}/maps", encoding="utf-8") as f:
        old = re.search(r"/shift/system/libibverbs\.so\.1.* \(deleted\)$", f.read(), re.M)
    check(old, "the running program has not the old file")
    system.rpm("-U", "--oldpackage", system.ours("shift-rdma"), system.ours("libibverbs-shift"))
    check_shift(system, stock_file(), "SHIFT downgraded")
    said = running.communicate("", timeout=60)[0]
    check("used" in said and "not to be" not in said, "the running program: " + said)


def stale(system):
    """A program starts, too, while the loader's cache is older than the files; and without shift-rdma."""
    system.rpm("-e", "--noscripts", "libibverbs-shift")
    check(system.cached("libibverbs.so.1") == SHIFT and "/shift/" not in system.opened("libibverbs.so.1"), "removed, stale cache")
    system.rpm("-i", "--noscripts", system.ours("libibverbs-shift"))
    check(system.opened("libibverbs.so.1") == SHIFT, "installed, stale cache")
    system.rpm("-e", "--nodeps", "shift-rdma")
    system.inside("ldconfig")
    below = system.loaded().get("libibverbs-distro.so.1", "nothing")
    check("/next/" in below, f"without shift-rdma, beneath lies {below}")
    check(system.opened("libibverbs.so.1") == SHIFT, "without shift-rdma")
    system.rpm("-i", system.ours("shift-rdma"))
    check_shift(system, stock_file(), "shift-rdma again")


def killed_at(system, command, at):
    """Whether rpm was killed; programs start then, and the same command goes through. For a moment rpm has put the link of a
    new libibverbs and not its file: then no program starts without SHIFT either."""
    was_killed, _ = system.cut(command, at)
    if os.path.exists(f"{system.root}{LIB}/libibverbs.so.1"):
        for name in ("libibverbs.so.1", "libibverbs.so"):
            system.opened(name)
        system.loaded()
    time.sleep(1.1)     # rpm names its new files by the second
    if command[0] != "-e" or system.rpm("-qa", "libibverbs-shift"):
        system.rpm(*command)
    found = system.opened("libibverbs.so.1")
    check(("/shift/" in found) == (command[0] != "-e"), f"{command} killed at {at}, then again: {found}")
    return was_killed


def killed(system):
    """rpm is killed before each change of a name: programs start, and a second run goes through."""
    shift, gone = ["-U", "--replacepkgs", system.ours("libibverbs-shift")], ["-e", "libibverbs-shift"]
    distro = [["-U", "--oldpackage", "--replacepkgs", system.distro(version)] for version in (NEXT, STOCK)]
    total = 0
    for command, back in ((gone, shift), (shift, gone), distro):
        _, changes = system.cut(command)
        for at in range(1, changes + 1):
            system.rpm(*back)
            total += killed_at(system, command, at)
    system.rpm(*distro[1])
    check_shift(system, stock_file(), "after kills")
    check(total > 10, f"rpm was killed {total} times only")
    for path in listed(system.root):    # new files that the killed ones have not named yet
        if re.search(r";[0-9a-f]{8}$", path):
            os.remove(system.root + path)
    print(f"       rpm was killed {total} times", flush=True)


def removed(system):
    """Removed: every file is as before, and the loader's cache."""
    system.rpm("-e", "libibverbs-shift")
    check_stock(system, "libibverbs-shift removed")
    system.rpm("-e", "shift-rdma")
    check_state(system, system.before, "removed")


def not_first(system):
    """Another file sorts before ours: the installation says so."""
    conf = system.root + "/etc/ld.so.conf.d/00-a.conf"
    with open(conf, "w", encoding="ascii") as f:
        f.write(HERE + "\n")
    said = system.rpm("-i", system.ours("shift-rdma"), system.ours("libibverbs-shift"))
    check("programs still load" in said, "not told: " + said)
    os.remove(conf)
    system.rpm("-e", "libibverbs-shift", "shift-rdma")


STEPS = (plugin, private, taken, traffic, distro_again, versions, ours_again, stale, killed, removed, not_first)


def prepare(folder, rpms):
    system = System(folder, rpms)
    run("cc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", os.path.join(folder, "cut.so"), os.path.join(WORK, "cut.c"))
    run("cc", "-D_GNU_SOURCE", "-o", os.path.join(folder, "opener"), os.path.join(WORK, "opener.c"), "-ldl")
    system.rpm("-i", base(folder), system.distro(STOCK), development(folder),
               utilities(folder, os.path.join(folder, "opener")))
    system.inside("ldconfig")
    check_stock(system, "before")
    system.before = system.state()
    return system


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rpms", required=True)
    parser.add_argument("step", nargs="*")
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing or os.geteuid():
        print(f"skipped: {'only root can install packages' if not missing else ', '.join(missing) + ' is not installed'}")
        return 77
    if not os.environ.get("RPM_TEST_ALONE"):   # in namespaces of its own no mount and no process is left
        alone = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--ipc"]
        return subprocess.run([*alone, sys.executable, "-B", *sys.argv], env={**os.environ, "RPM_TEST_ALONE": "1"}).returncode
    with tempfile.TemporaryDirectory(prefix="shift-rpm-") as folder:
        try:
            system = prepare(folder, os.path.abspath(args.rpms))
            for step in STEPS:
                if not args.step or step.__name__ in args.step:
                    step(system)
                    print(f"ok     {step.__doc__}", flush=True)
        except (Failed, Stuck) as error:
            print(f"FAILED {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
