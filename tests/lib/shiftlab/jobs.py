# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Jobs of two ranks, one on each host, that do rounds of work until they are told to end.

A rank (ranks/) checks what it receives and writes a line for each round into a file. What
a job has written through a fault must equal what as many rounds write on the distribution's library
without one.
"""
import argparse
import os
import subprocess
import sys
import typing

from shiftlab.lab import SKIPPED, Shift, out_folder, run_case, wait_for
from shiftlab.perftest import SOON, Failed, link, switch

RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks")
HOSTS = ("h0", "h1")
FEW = 3         # rounds, to see that a job goes on
CALM_ROUNDS = 5
ROUND_S = 20    # by far longer than a round may take
END_S = 120


class Missing(Exception):
    """Something that a job needs is not here; the text says what, and how to get it."""


def death(lab, begin):
    """The NIC is taken away, and comes back as another one."""
    lab.fault("nic-disassociate", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


def sick(lab, begin):
    """The NIC says that it does what it is told, and does nothing. Healed, it is another one."""
    lab.fault("nic-internal-error", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


def hang(lab, begin):
    """No command of the NIC comes back, and nothing goes in or out. Nor do commands of the program's
    own: one that registers memory for its next round waits for the end of it, as on stock."""
    lab.fault("nic-hang", "h1/mlx5_0") if begin else lab.ctl("heal", "h1/mlx5_0")


class Fault(typing.NamedTuple):
    """make: see perftest.py, None for none; stock: without SHIFT."""
    make: typing.Optional[typing.Callable]
    stock: bool


def drained(lab, begin):
    """As perftest.drain(), but UD queue pairs may stay, as those of UCX do: shiftctl tells, by its
    exit status."""
    lab.shiftctl("h1", "drain" if begin else "undrain", "mlx5_0", check=not begin)


FAULTS = {"calm": None, "link": link, "switch": switch, "death": death, "sick": sick, "hang": hang,
          "drain": drained}


def programs_folder(build):
    """Where scripts/install-programs.sh puts what Debian does not have."""
    return os.path.join(os.path.dirname(out_folder(build)), "programs")


def has_module(python, module):
    """Whether this interpreter can import it."""
    try:
        done = subprocess.run([python, "-c", "import " + module], capture_output=True, timeout=120,
                              check=False, cwd="/")     # not a file of that name here
    except OSError:
        return False
    return done.returncode == 0


class Rank:
    """What is known of one: its log, its file of rounds."""

    def __init__(self, lab, job, number):
        self.name = f"{job}-rank{number}"
        self.host = HOSTS[number]
        self.rounds_path = os.path.join(lab.folder, self.name + ".rounds")

    def rounds(self):
        try:
            with open(self.rounds_path, encoding="ascii") as f:
                text = f.read()
        except FileNotFoundError:
            return []
        return text.split("\n")[:-1]    # the last line may still be written


class Job:
    """
    Two ranks that run script with args. start_ranks(lab, job, commands) starts them, where commands
    has (argv, environment) for each, and returns the Programs that it started.
    """

    def __init__(self, lab, name, start_ranks, argv, env=None, shift=None, rounds=None):
        self.lab = lab
        self.name = name
        self.ranks = [Rank(lab, name, i) for i in range(len(HOSTS))]
        self.stop_path = os.path.join(lab.folder, name + ".stop")
        goal = ["--rounds", rounds] if rounds else ["--until", self.stop_path]
        commands = [lab.command(r.host, [*argv(i), "--out", r.rounds_path, *goal], r.name, shift,
                                env) for i, r in enumerate(self.ranks)]
        self.programs = start_ranks(lab, name, commands)

    def alive(self):
        for p in self.programs:
            if not p.running():
                raise Failed(f"{p.name} ended with {p.process.returncode}")

    def rounds(self):
        return min(len(r.rounds()) for r in self.ranks)

    def goes_on(self, rounds=FEW):
        """So many more rounds are done, at both ends."""
        self.comes_to(self.rounds() + rounds)

    def comes_to(self, goal):
        def done():
            self.alive()
            return self.rounds() >= goal

        more = goal - self.rounds()
        wait_for(f"{more} more rounds of {self.name}", done, ROUND_S + max(more, 0))

    def protected(self):
        for host in HOSTS:
            qps = self.lab.connections(host)
            if not qps or any(q["level"] != "protected" for q in qps):
                self.alive()
                return False
        return True

    def stop(self):
        """Tells the ranks to end after the round that they are in."""
        with open(self.stop_path, "x", encoding="ascii"):
            pass

    def end(self):
        for p in self.programs:
            if p.wait(END_S):
                raise Failed(f"{p.name} ended with {p.process.returncode}")
        return [r.rounds() for r in self.ranks]


def through_fault(job, fault):
    """From the default NICs to the backup ones, and back."""
    lab = job.lab
    wait_for("protection of all connections", job.protected, 30)
    job.goes_on()
    fault(lab, True)
    if fault is not hang:
        job.goes_on()
    wait_for("move of a rank", lambda: any(moved(lab, r, "mlx5_0", "mlx5_1") for r in job.ranks))
    fault(lab, False)
    wait_for("return of a rank", lambda: any(moved(lab, r, "mlx5_1", "mlx5_0") for r in job.ranks)
             or job.alive(), 60)
    job.goes_on()


def moved(lab, rank, source, to):
    return f" moved from {source} to {to}" in lab.shift_log(rank)


def expect_equal(job, lines, reference):
    for rank, mine, calm in zip(job.ranks, lines, reference):
        if not mine:
            raise Failed(f"{rank.name} did nothing")
        for i, (a, b) in enumerate(zip(mine, calm)):
            if a != b:
                raise Failed(f"{rank.name}: round {i} is '{a}', and '{b}' without a fault")
        if len(mine) != len(calm):
            raise Failed(f"{rank.name}: {len(mine)} rounds, and {len(calm)} without a fault")


def end_of_stock(job, fault):
    """Without SHIFT the fault ends the job: so it falls where the traffic is."""
    job.goes_on()
    fault(job.lab, True)
    wait_for("end of " + job.name, lambda: not all(p.running() for p in job.programs), END_S)
    for p in job.programs:
        if not p.running() and not p.process.returncode:
            raise Failed(f"{p.name} ended well, without SHIFT")
    return [r.rounds() for r in job.ranks]


def run(lab, start, fault, rounds=CALM_ROUNDS, min_bytes=1):
    """
    start(lab, name, shift, rounds) makes the Job. Through the fault with SHIFT, and at least so many rounds; then
    as many without fault and without SHIFT; both write the same. fault: a Fault.
    """
    if fault.stock:
        return end_of_stock(start(lab, "stock", None, None), fault.make)
    shift = Shift(log="info", **SOON)
    job = start(lab, "shift", shift, None if fault.make else rounds)
    if fault.make:
        through_fault(job, fault.make)
        job.comes_to(rounds)
        job.stop()
    lines = job.end()
    carried = sum(lab.carried(i) for i in (0, 1))
    if carried < min_bytes * len(lines[0]):
        raise Failed(f"only {carried} bytes went over the NICs in {len(lines[0])} rounds")
    reference = start(lab, "stock", None, len(lines[0])).end()
    expect_equal(job, lines, reference)
    return lines


def arguments(doc, cases):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--fault", default=",".join(FAULTS), help="of " + ", ".join(FAULTS))
    parser.add_argument("--stock", action="store_true", help="without SHIFT: a fault ends the job")
    parser.add_argument("cases", nargs="*", choices=[[], *cases])
    args = parser.parse_args()
    args.faults = args.fault.split(",")
    unknown = [f for f in args.faults if f not in FAULTS]
    if unknown:
        parser.error(f"no fault {', '.join(unknown)}")
    if args.stock:  # a job whose NIC was taken away may wait for ever
        args.faults = [f for f in args.faults if f in ("link", "switch")]
    args.cases = args.cases or list(cases)
    return args


def main(doc, cases, prepare):
    """
    cases: {name: case(lab, fault, programs)}; prepare(build) finds the programs or raises Missing.
    Exit status: 0 all passed, 1 some failed, 77 the programs are not here.
    """
    args = arguments(doc, cases)
    try:
        programs = prepare(args.build)
    except Missing as e:
        print(f"SKIP: {e}")
        return SKIPPED
    todo = [(name, fault) for name in args.cases for fault in args.faults]
    failed = sum(
        not run_case(args.build, f"{name} {fault}",
                     lambda lab, n=name, f=fault: cases[n](lab, Fault(FAULTS[f], args.stock),
                                                           programs))
        for name, fault in todo)
    print(f"{len(todo) - failed} passed, {failed} failed")
    sys.stdout.flush()
    return 1 if failed else 0
