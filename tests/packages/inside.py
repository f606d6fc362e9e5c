#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the packages do to a system, and what they leave of it. Only for the copy that run.sh made.

Compared before and after removal, purge, reinstallation, update and downgrade of libibverbs1 and of SHIFT's packages:
every file of rdma-core's packages and perftest (sum, mode, owner, time, links), the names beside the library, dpkg's
diversions, dpkg --verify and ldconfig's cache. dpkg and its scripts are also killed before a change of a name; then a
verbs program is started, a second run completes, and all is compared again.

  inside.py --debs FOLDER --cut LIBRARY [--cuts N] [--steps NAME,...]

--cuts: at how many random points each of the operations is killed (all: every one); what follows is that operation
again or, by chance (all: too), its opposite. But with all, pingpong has one of its two ways, drawn.
"""
import argparse
import contextlib
import glob
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

from cuts import cut
from shiftlab.lab import Lab, draw_seed, free_port, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
# The source tree, or what run.sh has copied of it.
TREE = next(up for up in (HERE + "/..", HERE + "/../..") if os.path.isdir(up + "/debian"))
ARCH = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
TRIPLET = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[ARCH]
LIB = f"/usr/lib/{TRIPLET}"
OURS = "shift/system/libibverbs.so.1"
CONF = "/etc/shift.conf"
NEXT = ("libibverbs.so.1.14.50.0", "50.0-1")     # another libibverbs1, in the range that is depended on
PACKAGES = ("shift-rdma", "libibverbs1-shift")


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def run(*argv, env=None, status=0):
    """Its output; status: what it must end with."""
    done = subprocess.run([str(a) for a in argv], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", stdin=subprocess.DEVNULL)
    check(done.returncode == status, f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


# ---- what a system is ---------------------------------------------------------------------------------

def describe(path):
    st = os.lstat(path)
    said = f"{path} {st.st_mode:o} {st.st_uid}:{st.st_gid}"
    if os.path.islink(path):
        return said + " -> " + os.readlink(path)
    if os.path.isfile(path):
        with open(path, "rb") as f:
            return f"{said} {int(st.st_mtime)} {hashlib.sha256(f.read()).hexdigest()}"
    return said


def rdma_packages():
    rows = run("dpkg-query", "-W", "-f", "${binary:Package} ${source:Package} ${db:Status-Status}\\n").splitlines()
    return [row.split()[0] for row in rows
            if row.split()[1] in ("rdma-core", "perftest") and row.split()[2] == "installed"]


def state(packages):
    """Every file of rdma-core's packages, every name beside its library, dpkg's and ldconfig's view of them."""
    paths = {path for path in run("dpkg", "-L", *packages).splitlines() if os.path.lexists(path)}
    names = [name for name in os.listdir(LIB) if re.match(r"libibverbs|shift|simnic|\.shift", name)]
    cached = [row for row in run("ldconfig", "-p").splitlines() if re.search("ibverbs|rdma|mlx|efa", row)]
    return [describe(path) for path in sorted(paths)] + sorted(names) + sorted(cached) + [
        run("dpkg-divert", "--list"), run("dpkg-query", "-W", *packages),
        run("dpkg", "--verify", *packages),
        " ".join(sorted(os.listdir("/etc/ld.so.conf.d")))]


def check_state(before, what):
    now = state(packages_before)
    known, there = set(before), set(now)
    gone, come = [r for r in before if r not in there], [r for r in now if r not in known]
    check(not gone and not come, what + ": not as before\n" + "\n".join(["-" + r for r in gone] +
                                                                        ["+" + r for r in come]))


# ---- packages -----------------------------------------------------------------------------------------

def deb(name):
    found = glob.glob(os.path.join(args.debs, name + "_*.deb"))
    check(len(found) == 1, f"packages named {name}: {found}")
    return found[0]


def install(*files):
    run("dpkg", "-i", *files)


def build_deb(root, name):
    path = os.path.join(work, name + ".deb")
    run("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", root, path)
    return path


def edit_control(root, version):
    path = os.path.join(root, "DEBIAN", "control")
    with open(path, encoding="utf-8") as f:
        text = f.read()
    text = re.sub(r"^(Version|Depends): .*$", lambda m: "Version: " + version if m[1] == "Version" else
                  re.sub(r"shift-rdma \(= [^)]*\)", "shift-rdma", m[0]), text, flags=re.M)
    with open(path, "w", encoding="utf-8") as f:
        f.write(re.sub(r"^Status: .*\n", "", text, flags=re.M))


def repack(package, version, library=None):
    """An installed package as a file; libibverbs1 with its library under this name."""
    root = os.path.join(work, f"repack-{package}-{version}")
    os.makedirs(os.path.join(root, "DEBIAN"))
    with open(os.path.join(root, "DEBIAN", "control"), "w", encoding="utf-8") as f:
        f.write(run("dpkg-query", "-s", package))
    edit_control(root, version)
    for path in glob.glob(f"/var/lib/dpkg/info/{package}:*"):
        name = path.rsplit(".", 1)[1]
        if name not in ("list", "md5sums"):
            shutil.copy(path, os.path.join(root, "DEBIAN", name))
    for path in run("dpkg", "-L", package).splitlines()[1:]:
        if os.path.isdir(path) and not os.path.islink(path):
            os.makedirs(root + path, exist_ok=True)
        else:
            shutil.copy2(path, root + path, follow_symlinks=False)
    if library:
        rename_library(root + LIB, library)
    run("sh", "-c", f"cd {root} && find . -type f -not -path './DEBIAN/*' -printf '%P\\0' | "
        "xargs -0 md5sum > DEBIAN/md5sums")
    return build_deb(root, f"{package}-{version}")


def rename_library(folder, library):
    link = folder + "/libibverbs.so.1"
    os.rename(os.path.join(folder, os.readlink(link)), os.path.join(folder, library))
    os.remove(link)
    os.symlink(library, link)


def repack_ours(version):
    root = os.path.join(work, "ours-" + version)
    run("dpkg-deb", "-R", deb("libibverbs1-shift"), root)
    edit_control(root, version)
    return build_deb(root, "ours-" + version)


def without_index_of_pages():
    """man-db's trigger reads every page of the system anew behind each dpkg, and is no matter of these packages."""
    with contextlib.suppress(FileNotFoundError):
        os.remove("/var/lib/man-db/auto-update")


# ---- what programs see --------------------------------------------------------------------------------

def devices(lab):
    """A verbs program starts, and finds the NICs: under any state that dpkg may be killed in."""
    said = run(os.path.join(lab.out, "bin", "simnicctl"), "run", "--host", "h0", "--", "ibv_devices", env=lab.env())
    check("mlx5_0" in said and "mlx5_1" in said, "ibv_devices\n" + said)


def loaded(*argv):
    """The files of libibverbs that a program maps, with nothing asked for."""
    said = run("ldd", *argv)
    return re.findall(r"=> (\S*libibverbs\S*)", said)


def taken_over():
    return os.path.islink(LIB + "/libibverbs.so.1") and os.readlink(LIB + "/libibverbs.so.1") == OURS


def check_taken_over(library):
    check(taken_over(), "SHIFT is not in place")
    found = loaded(shutil.which("ib_write_bw"))
    check(any(path.endswith("/shift/libibverbs-distro.so.1") for path in found), f"ib_write_bw loads {found}")
    check(os.path.basename(os.path.realpath(LIB + "/shift/libibverbs-distro.so.1")) == library,
          f"SHIFT does not load {library}")
    check(not os.path.exists(os.path.join(LIB, library)), f"{library} lies where ldconfig links it")
    check(os.listdir(LIB + "/shift/distro").count(library) == 1 and
          len(glob.glob(LIB + "/shift/distro/libibverbs.so.1.*")) == 1, "another library is left")


def check_stock():
    check(len(loaded(shutil.which("ib_write_bw"))) == 1, "ib_write_bw does not load one libibverbs")


def check_opened(name, part):
    """dlopen() of this name, in a fresh process."""
    said = run(sys.executable, "-c", f"import ctypes; ctypes.CDLL('{name}'); print(open('/proc/self/maps').read())")
    check(part in said, f"{name} is not from {part}\n{said}")


def check_links():
    """A program that uses what SHIFT does not override is linked, where there is a compiler."""
    if not shutil.which("cc"):
        return
    source, program = os.path.join(work, "t.c"), os.path.join(work, "t")
    with open(source, "w", encoding="ascii") as f:
        f.write("#include <infiniband/verbs.h>\nint main(void) { int n; struct ibv_device **l = "
                "ibv_get_device_list(&n);\nreturn l && n ? ibv_get_device_index(l[0]) == -2 : 0; }\n")
    run("cc", source, "-libverbs", "-o", program)
    check(len(loaded(program)) == (2 if taken_over() else 1), f"it loads {loaded(program)}")
    run(program)


def privileged():
    """What a program with more rights than its user ends with: the loader believes less there."""
    program = os.path.join(work, "privileged")
    shutil.copy(shutil.which("ibv_devices"), program)
    os.chmod(program, 0o4755)
    os.chmod(work, 0o755)
    done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", program], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def settings(text):
    with open(CONF, "w", encoding="ascii") as f:
        f.write(text)


# ---- traffic ------------------------------------------------------------------------------------------

def bare_env(lab, **more):
    """No variable of SHIFT's, and none for the loader."""
    env = {k: v for k, v in lab.env().items() if not k.startswith(("SHIFT_", "LD_"))}
    return dict(env, **more)


def traffic(lab, **env):
    """The stock ib_write_bw between two hosts; both ends."""
    argv = ["ib_write_bw", "-d", "mlx5_0", "-x", "0", "-F", "-D", "300", "-p", str(free_port())]
    ends = []
    for host, peer in (("h0", []), ("h1", ["127.0.0.1"])):
        ends.append(lab.launch(host, ["simnicctl", "run", "--host", host, "--"] + argv + peer, bare_env(lab, **env)))
        if not peer:
            ends[0].await_listening()
    carries(lab, ends, 0)
    return ends


def carries(lab, ends, nic):
    before = lab.carried(nic)

    def more():
        for p in ends:
            check(p.running(), f"{p.name} ended\n{p.tail()}")
        return lab.carried(nic) > before + 10000000

    wait_for(f"traffic over mlx5_{nic}", more, 60)


def protected():
    """The processes all of whose connected queue pairs are protected, as shiftctl says with no variable set."""
    done = subprocess.run(["shiftctl", "status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    told = json.loads(done.stdout)
    return {p["pid"] for p in told["processes"] if p.get("qps") and all(
        q["level"] == "protected" for q in p["qps"])}


def outlives(lab, **env):
    ends = traffic(lab, **env)
    wait_for("protection", lambda: {p.pid for p in ends} <= protected(), 60)
    lab.fault("port-down", "h0/mlx5_0")
    carries(lab, ends, 1)
    end(lab, ends)


def as_on_stock(lab, **env):
    ends = traffic(lab, **env)
    for p in ends:
        threads = {open(f"/proc/{p.pid}/task/{t}/comm", encoding="ascii").read().strip()
                   for t in os.listdir(f"/proc/{p.pid}/task")}
        check("shift" not in threads, f"{p.name} has the threads {threads}")
    check(not {p.pid for p in ends} & protected(), "shiftctl status names it")
    lab.fault("port-down", "h0/mlx5_0")
    wait_for("end of the client", lambda: not ends[1].running(), 90)
    check("status 12" in ends[1].err() + ends[1].out(), f"the client ended otherwise\n{ends[1].tail()}")
    end(lab, ends)


def end(lab, ends):
    for p in ends:
        p.end()
        lab.programs.remove(p)
    lab.ctl("heal", "h0/mlx5_0")


# ---- steps --------------------------------------------------------------------------------------------

def private(lab):
    """shift-rdma alone: nothing changes for a program that does not ask for it."""
    run("apt-get", "-qq", "-y", "--no-install-recommends", "install", deb("shift-rdma"))
    check_stock()
    as_on_stock(lab)
    said = run("shiftctl", "run", "--", "ldd", shutil.which("ib_write_bw"))
    check(f"{LIB}/shift/libibverbs" in said, said)
    said = run("ldd", shutil.which("ib_write_bw"), env=dict(os.environ, LD_LIBRARY_PATH=LIB + "/shift"))
    check(f"librdmacm.so.1 => {LIB}/shift/librdmacm.so.1" in said and
          f"librdmacm-distro.so.1 => {LIB}/shift/librdmacm-distro.so.1" in said, said)
    check("protected" in run("simnicctl", "run", "--host", "h0", "--", "shiftctl", "doctor", env=bare_env(lab)),
          "doctor")


def taken(lab):
    """libibverbs1-shift: every program loads it, and it keeps out of all of them."""
    run("apt-get", "-qq", "-y", "--no-install-recommends", "install", deb("libibverbs1-shift"))
    run("ldconfig")
    check_taken_over(stock)
    as_on_stock(lab)
    check_links()
    check_opened("libibverbs.so", "/shift/system/libibverbs.so.1")
    check_opened("libibverbs.so.1", "/shift/system/libibverbs.so.1")
    check(privileged() == privileged_before, f"setuid: {privileged()}, before: {privileged_before}")


def named(lab):
    """In /etc/shift.conf ib_write_bw is named: it outlives its NIC, with no variable set."""
    settings("SHIFT_PROGRAMS = ib*\n")
    run("simnicctl", "run", "--host", "h0", "--", "ibv_devinfo", env=bare_env(lab))
    outlives(lab)
    said = run("simnicctl", "run", "--host", "h0", "--", "shiftctl", "doctor", env=bare_env(lab))
    check(CONF in said, "doctor does not name the settings\n" + said)


def disabled(lab):
    """SHIFT_DISABLE=1."""
    as_on_stock(lab, SHIFT_DISABLE="1")


def pingpong(lab):
    """debian/tests, and the task prolog of docs/deploy."""
    settings("")
    ways = ((), ("shiftctl", "run", "--"))
    for command in ways if args.cuts == "all" else (random.choice(ways),):
        run(os.path.join(TREE, "debian", "tests", "pingpong"), *command, env=bare_env(lab))
    prolog = os.path.join(TREE, "docs", "deploy", "slurm-task-prolog.sh")
    check(not run(prolog, env=bare_env(lab)), "the prolog turns it on for all jobs")
    lines = run(prolog, env=bare_env(lab, SHIFT="1", SHIFT_KV="lmdb:/dev/shm/prolog")).splitlines()
    check(lines == ["export SHIFT_ENABLE=1"], lines)
    outlives(lab, SHIFT_ENABLE="1")
    settings("SHIFT_PROGRAMS = ib*\n")


def distro_again(lab):
    """libibverbs1 again, a newer one whose library has another name, and the old one."""
    for path, library in ((debs[stock], stock), (debs[NEXT[0]], NEXT[0]), (debs[stock], stock)):
        run("dpkg", "--no-triggers", "--unpack", path)
        devices(lab)
        run("ldconfig")     # as another package would in between
        devices(lab)
        run("dpkg", "--configure", "-a")
        check_taken_over(library)
        devices(lab)
        check_opened("libibverbs.so", "/shift/system/libibverbs.so.1")
    outlives(lab)


def ours_again(lab):
    """libibverbs1-shift again, a newer one, and the old one; a running job keeps what it has loaded, and its protection."""
    ends = traffic(lab)
    wait_for("protection", lambda: {p.pid for p in ends} <= protected(), 60)
    for path in (deb("libibverbs1-shift"), ours_next, deb("libibverbs1-shift")):
        install(path)
        check_taken_over(stock)
        devices(lab)
    for p in ends:
        with open(f"/proc/{p.pid}/maps", encoding="utf-8") as f:
            check(re.search(r"/shift/system/libibverbs\S* \(deleted\)$", f.read(), re.M), f"{p.name} has not the old library")
    lab.fault("port-down", "h0/mlx5_0")
    carries(lab, ends, 1)
    end(lab, ends)


def both_again(lab):
    """Newer ones of both in one go, in both orders, and back."""
    for first, second in ((ours_next, debs[NEXT[0]]), (debs[stock], deb("libibverbs1-shift"))):
        install(first, second)
        devices(lab)
    check_taken_over(stock)


def forced(lab):
    """dpkg is forced to take away what libibverbs1-shift depends on."""
    run("dpkg", "--force-depends", "--purge", "shift-rdma")
    devices(lab)
    install(deb("shift-rdma"))
    check_taken_over(stock)
    run("dpkg", "--force-depends", "--remove", "libibverbs1")
    install(debs[stock])
    devices(lab)
    check_taken_over(stock)
    run("dpkg", "--force-depends", "--remove", "libibverbs1")
    run("dpkg", "--force-depends", "--purge", "libibverbs1-shift")
    install(debs[stock])
    check_state(before + ["shift"], "removed while there was no libibverbs1")
    install(deb("libibverbs1-shift"))


def dev_goes(lab):
    """libibverbs-dev goes and comes: without it there is no libibverbs.so."""
    version = run("dpkg-query", "-W", "-f", "${Version}", "libibverbs-dev")
    root = os.path.join(work, "dev")
    shutil.rmtree(root, ignore_errors=True)
    check(os.path.exists(LIB + "/libibverbs.so"), "no libibverbs.so with libibverbs-dev " + version)
    run("dpkg", "--force-depends", "--remove", "libibverbs-dev")
    check(not os.path.lexists(LIB + "/libibverbs.so"), "libibverbs.so is still there")
    devices(lab)
    install(dev)
    check_links()
    check_opened("libibverbs.so", "/shift/system/libibverbs.so.1")


def removed(lab):
    """Removed: every file of rdma-core is as before; the settings stay until the purge."""
    settings("SHIFT_PROGRAMS = *\n")
    run("apt-get", "-qq", "-y", "remove", "libibverbs1-shift")
    check_state(before + ["shift"], "removed")
    devices(lab)
    as_on_stock(lab)
    check_opened("libibverbs.so", "/" + stock)
    install(deb("libibverbs1-shift"))
    check_taken_over(stock)
    run("apt-get", "-qq", "-y", "remove", "libibverbs1-shift", "shift-rdma")
    check_state(before, "all removed")
    check(os.path.exists(CONF), f"{CONF} went with a removal")
    run("apt-get", "-qq", "-y", "purge", *PACKAGES)
    check_state(before, "purged")
    check(not os.path.exists(CONF), f"{CONF} outlives the purge")
    left = run("dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Abbrev}\n")
    check(not re.search("^(" + "|".join(PACKAGES) + ")[: ].*(i|r)", left, re.M), left)


def other_diverts(lab):
    """Somebody else has diverted the library: refused, and nothing is changed."""
    install(deb("shift-rdma"))
    run("dpkg-divert", "--local", "--no-rename", "--divert", LIB + "/other", "--add", LIB + "/libibverbs.so.1")
    between = state(packages_before)
    said = run("dpkg", "-i", deb("libibverbs1-shift"), status=1)
    check("is diverted by" in said, said)
    check_state(between, "refused")
    run("dpkg-divert", "--local", "--no-rename", "--remove", LIB + "/libibverbs.so.1")
    run("dpkg", "--purge", *PACKAGES)
    check_state(before, "purged")


# ---- dpkg is killed -----------------------------------------------------------------------------------

def cut_points(changes):
    every = range(1, changes + 1)
    return every if args.cuts == "all" else sorted(random.sample(every, min(int(args.cuts), changes)))


class Step:
    """command; then(): what must hold in the end; back(): to where it begins."""

    def __init__(self, command, then, back):
        self.command, self.then, self.back = command, then, back

    def finish(self):
        self.then()
        self.back()


def ways_on(step, others):
    """What follows on a cut: the same again, or something else. All, or by chance one."""
    ways = (step,) + others
    return ways if args.cuts == "all" else (random.choice(ways),)


def cuts_of(lab, name, step, *others):
    """others: steps that an administrator may take instead when this one was killed, each back to its beginning."""
    counter = os.path.join(work, "count")
    _, changes = cut(step.command, args.cut, counter)
    step.finish()
    killed = 0
    for at in cut_points(changes):
        if args.cuts == "all" and at % 10 == 0:
            print(f"       {name}: {at} of {changes}", flush=True)
        for way in ways_on(step, others):
            was_killed, _ = cut(step.command, args.cut, counter, at)
            killed += was_killed
            try:
                devices(lab)
                run("ldconfig")
                devices(lab)
                run(*way.command)
                run("dpkg", "--configure", "-a")
                devices(lab)
                way.finish()
            except AssertionError as e:
                raise AssertionError(f"{name}, killed at change {at} of {changes}, then {' '.join(way.command)}: "
                                     f"{e}") from e
    print(f"       {name}: {changes} changes of names, killed {killed} times", flush=True)


def killed(lab):
    """dpkg is killed at any change: programs start and find their NICs, and a second run goes through."""
    shift = deb("libibverbs1-shift")
    install(deb("shift-rdma"))
    with_private = before + ["shift"]
    # dpkg asks for the force where it was killed while it unpacked.
    remove = ["dpkg", "--force-remove-reinstreq", "--purge", "libibverbs1-shift"]

    def gone():
        check_state(with_private, "removed")

    def taken_again(library=stock):
        return lambda: check_taken_over(library)

    def nothing():
        pass

    def put():
        install(shift)

    def put_distro():
        install(debs[stock])
        check_taken_over(stock)

    cuts_of(lab, "installation", Step(["dpkg", "-i", shift], taken_again(), lambda: (run(*remove), gone())),
            Step(remove, gone, nothing))
    put()
    cuts_of(lab, "removal", Step(remove, gone, put), Step(["dpkg", "-i", shift], taken_again(), nothing))
    cuts_of(lab, "update", Step(["dpkg", "-i", ours_next], taken_again(), put), Step(remove, gone, put))
    cuts_of(lab, "update of libibverbs1", Step(["dpkg", "-i", debs[NEXT[0]]], taken_again(NEXT[0]), put_distro))
    cuts_of(lab, "the same libibverbs1", Step(["dpkg", "-i", debs[stock]], taken_again(), nothing))
    run("dpkg", "--purge", *PACKAGES)
    check_state(before, "purged")


STEPS = (private, taken, named, disabled, pingpong, distro_again, ours_again, both_again, dev_goes, forced,
         removed, other_diverts, killed)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--debs", required=True)
    parser.add_argument("--cut", required=True)
    parser.add_argument("--cuts", default="2")
    parser.add_argument("--steps", help="only these, with commas between them; later ones build on earlier ones")
    args = parser.parse_args()
    seed = draw_seed()
    print(f"TESTS_DRAW={seed}", flush=True)
    random.seed(seed)
    work = tempfile.mkdtemp()
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    stock = os.readlink(LIB + "/libibverbs.so.1")
    installed = run("dpkg-query", "-W", "-f", "${Version}", "libibverbs1")
    debs = {stock: repack("libibverbs1", installed, stock), NEXT[0]: repack("libibverbs1", NEXT[1], NEXT[0])}
    dev = repack("libibverbs-dev", run("dpkg-query", "-W", "-f", "${Version}", "libibverbs-dev"))
    ours_next = repack_ours("99.0")
    packages_before = rdma_packages()
    privileged_before = privileged()
    without_index_of_pages()
    run("ldconfig")     # its cache may be older than the machine's last -dev package, which does not renew it
    at_first = state(packages_before)
    print("rdma-core's packages:", *packages_before, flush=True)
    install(deb("simnic"))
    before = at_first + ["simnic"]
    check_state(before, "simnic alone")
    chosen = [s for s in STEPS if not args.steps or s.__name__ in args.steps.split(",")]
    with Lab("/usr") as the_lab:
        for step in chosen:
            began = time.monotonic()
            try:
                step(the_lab)
            except Exception as e:
                print("".join(p.tail() for p in the_lab.programs))
                print(f"FAILED {step.__name__}: {e}")
                sys.exit(1)
            print(f"ok     {step.__doc__ or step.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    run("dpkg", "--purge", *reversed(PACKAGES), "simnic")
    check_state(at_first, "all purged")
    print(f"{len(chosen)} passed, 0 failed; {len(at_first)} lines of state are as before")
