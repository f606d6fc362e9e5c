# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
A script is played: three processes obey it, and what each object saw is noted by names that do not hang on the run: no queue
pair numbers, no keys, no times.

A run under SHIFT is given what stock saw. It waits for as much, and for longer than stock needed: what has not come by then hangs.
"""
import os
import socket
import time

from shiftlab.bystanders.compare import FATAL
from shiftlab.bystanders.script import COUNTED, HOSTS
from shiftlab.lab import Lab, Shift, Stuck, wait_for

ANSWER_S = 60           # a verb that has not returned by then hangs
STOCK_MS = 15000        # a queue pair of stock has its retries behind it by then
SHIFT_MS = 40000        # of a protected one; a bystander: no more than stock
QUIET_MS = 60           # what must not come had so long to come
EVENTS_S = 0.15
EVENTS_SHIFT_S = 10
PROTECTION_S = 20
SHORT_S = 2         # a fault of a slow script, at most: then stock's retries are nearly spent
NONE = "-"


class Hang(Exception):
    pass


class Overtime(Exception):
    """A fault that stock outlives has taken too long: the machine was busy, or a verb took its time."""


class Gone(Exception):
    """The process has ended."""


class Actor:
    """A process that obeys lines."""

    def __init__(self, lab, name, shift):
        self.name = name
        self.wrong = []
        self.odd = set()    # what stock never does
        path = os.path.join(lab.folder, f"line-{name}")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(ANSWER_S)
            how = Shift(log="info") if shift and name != "C" else None
            self.program = lab.start(HOSTS[name], [os.path.join(lab.out, "bin", "bystanders"), path], name, how)
            self.line = listener.accept()[0]
        self.line.settimeout(ANSWER_S)
        self.file = self.line.makefile("rw", encoding="ascii", newline="\n")

    def say(self, *words):
        try:
            self.file.write(" ".join(map(str, words)) + "\n")
            self.file.flush()
        except OSError as e:
            raise Gone(f"{self.name}: {e}: {self.program.tail(3)}") from None

    def answer(self):
        """(lines before the last one, the last one)"""
        lines = []
        while True:
            try:
                line = self.file.readline().rstrip("\n")
            except TimeoutError:
                raise Hang(f"{self.name} does not answer") from None
            except OSError as e:
                raise Gone(f"{self.name}: {e}: {self.program.tail(3)}") from None
            if not line:
                raise Gone(f"{self.name} has ended: {self.program.tail(3)}")
            if line.startswith("="):
                return lines, line[2:]
            if line.startswith("WRONG "):
                self.wrong.append(f"{self.name}: {line[6:]}")
            elif line.startswith("ODD "):
                self.odd.add(f"{self.name}: {line[4:]}")
            else:
                lines.append(line)

    def ask(self, *words):
        self.say(*words)
        return self.answer()

    def close(self):
        for f in (self.file, self.line):
            try:
                f.close()
            except OSError:     # what it was told last it has not read
                pass


class Seen:
    """All that was noted, in order: (step, process, object, what) -> value."""

    def __init__(self):
        self.notes = {}
        self.collected = {}     # (step, end) -> (completions of requests, of receives)
        self.wrong = []
        self.odd = set()
        self.hangs = []
        self.bystander = {}     # of a note's key: does it tell of a bystander?
        self.users = {}         # (step, process, context) -> has it a bystander? a protected one?
        self.unprotected = 0
        self.log = ""

    def note(self, key, value, bystander):
        self.notes[key] = value
        self.bystander[key] = bystander


class Play:
    def __init__(self, build, script, shift, stock=None):
        self.build = build
        self.script = script
        self.shift = shift
        self.stock = stock
        self.seen = Seen()
        self.ends = {}      # those that are there: number -> End
        self.at = {}        # the address of each
        self.dead = set()   # (process, context)
        self.killed = set()
        self.began = 0.0    # when the fault did
        self.step = 0

    def run(self):
        with Lab(self.build, hosts=3, seed=self.script.seed) as self.lab:
            self.actors = {name: Actor(self.lab, name, self.shift) for name in HOSTS}
            try:
                self.play()
            except (Hang, Gone, Stuck) as e:
                self.seen.hangs.append(f"step {self.step} {self.script.steps[self.step][0]}: {e}")
            finally:
                for a in self.actors.values():
                    self.seen.wrong += a.wrong
                    self.seen.odd |= a.odd
                    a.close()
                self.seen.wrong += [self.lab.complaints()] if self.lab.complaints() else []
                self.seen.log = self.lab.shift_logs() if self.shift else ""
        return self.seen

    def play(self):
        for self.step, (what, *rest) in enumerate(self.script.steps):
            getattr(self, "do_" + what)(*rest)

    def note(self, process, thing, what, value, bystander):
        self.seen.note((self.step, process, thing, what), value, bystander)

    def ask(self, process, *words):
        return self.actors[process].ask(*words)

    def ask_noted(self, process, thing, bystander, *words):
        if process in self.killed:
            return []
        lines, last = self.ask(process, *words)
        self.note(process, thing, words[0], last, bystander)
        return lines

    def alive(self):
        """What the script has not killed: one that has ended by itself is found when it does not answer."""
        return [name for name in self.actors if name not in self.killed]

    # --- objects ---------------------------------------------------------------------------

    def do_ctx(self, process, ctx):
        self.ask_noted(process, f"ctx{ctx.number}", True, "ctx", ctx.number, ctx.device)

    def do_channel(self, process, ctx, number):
        self.ask_noted(process, f"channel{number}", True, "channel", number, ctx.number)

    def do_cq(self, process, q):
        self.ask_noted(process, f"cq{q.number}", True, "cq", q.number, q.ctx.number, q.channel, q.entries,
                       int(q.solicited))

    def do_srq(self, process, ctx, number):
        self.ask_noted(process, f"srq{number}", True, "srq", number, ctx.number, 255)
        if self.script.reserve:
            self.ask_noted(process, f"srq{number}", True, "reserve", number, self.script.reserve)

    def do_qp(self, end):
        u = end.unit
        depth = 128 if u.shape == "burst" else 16
        lines = self.ask_noted(end.process, self.name(end), not u.protected, "qp", end.number, end.context.number,
                               "foreign" if u.foreign else u.kind, u.number, end.side, end.send_cq.number,
                               end.recv_cq.number, end.srq, depth, 16, int(u.all_signaled))
        self.ends[end.number] = end
        self.at[end.number] = lines[0].split()[1:] if lines else None

    def name(self, end):
        return f"{end.unit}.{end.side}"

    def do_connect(self, unit):
        for mine, theirs in (unit.ends, unit.ends[::-1]):
            if self.at.get(theirs.number) and self.at.get(mine.number):
                self.ask_noted(mine.process, self.name(mine), not unit.protected, "connect", mine.number,
                               *self.at[theirs.number], self.script.timeout)

    def do_reset(self, unit):
        for end in unit.ends:
            self.ask_noted(end.process, self.name(end), not unit.protected, "reset", end.number)
        self.do_connect(unit)

    def do_dropqp(self, end):
        if end.number in self.ends and end.process in self.alive():
            self.ask_noted(end.process, self.name(end), not end.unit.protected, "dropqp", end.number)
            del self.ends[end.number]

    def do_protection(self):
        """The tests of protected ones begin when they are."""
        if not self.shift:
            return
        for name in "AB":
            want = {e.number for e in self.ends.values() if e.process == name and e.unit.protected and
                    {x.process for x in e.unit.ends} == {"A", "B"}}
            if self.killed:
                continue
            try:
                wait_for("protection", lambda: self.protected(name) >= len(want), PROTECTION_S)
            except Stuck:
                self.seen.unprotected += 1

    def protected(self, name):
        return sum(q["level"] == "protected"
                   for q in self.lab.connections(HOSTS[name]))

    # --- traffic ---------------------------------------------------------------------------

    def do_post(self, batch):
        """All receives first."""
        alive = self.alive()
        for sender, receiver, ops, _ in batch:
            counted = sum(op in COUNTED for op in ops)
            if receiver.process in alive and receiver.number in self.ends and counted:
                self.ask_noted(receiver.process, self.name(receiver), not receiver.unit.protected, "recv",
                               receiver.number, counted)
        for sender, _, ops, size in batch:
            if sender.process in alive and sender.number in self.ends:
                self.ask_noted(sender.process, self.name(sender), not sender.unit.protected, "send", sender.number, ops,
                               sender.unit.every, size)

    def watch_all(self, targets, ms):
        """Each process waits for its own; the ends that are late."""
        late = []
        targets = {name: rows for name, rows in targets.items() if rows and name in self.alive()}
        for name, rows in targets.items():
            self.actors[name].say("watch", int(ms), *rows)
        for name in targets:
            _, last = self.actors[name].answer()
            if last.startswith("late"):
                late.append((name, last[5:]))
        return late

    def gather(self, found):
        """Adds what was seen since: found[end] = [requests, receives]."""
        for name in self.alive():
            for line in self.ask(name, "seen")[0]:
                what, number, *words = line.split()
                found.setdefault(int(number), [[], []])[what == "recvs"] += words

    def do_collect(self, batch, loose, touched):
        found = {}
        senders = {s.number: (s, r, ops) for s, r, ops, _ in batch if s.process in self.alive()}
        if self.shift:
            self.await_as_stock(senders, loose)
        else:
            self.await_sends(senders)
        self.gather(found)
        if not self.shift:
            self.await_receives(senders, touched, found)
        else:
            self.await_protected_receives(senders, found)
        time.sleep(QUIET_MS / 1e3)
        self.gather(found)
        self.note_found(found, loose)

    def targets(self, rows):
        """[(end, completions of requests, of receives)]"""
        found = {}
        for end, sends, recvs in rows:
            if end.number in self.ends:
                found.setdefault(end.process, []).append(f"{end.number}:{sends}:{recvs}")
        return found

    def await_sends(self, senders):
        rows = [(s, "x", NONE) for s, _, _ in senders.values() if s.number in self.ends and not self.is_dead(s)]
        self.watch_all(self.targets(rows), STOCK_MS)

    def is_dead(self, end):
        """Its own NIC has died: stock tells nothing."""
        return (end.process, end.context.number) in self.dead

    def do_dead(self, process, numbers):
        self.dead |= {(process, n) for n in numbers}

    def await_receives(self, senders, touched, found):
        rows = []
        for s, r, ops in senders.values():
            got = found.get(s.number, [[], []])[0]
            ok = all(word.endswith(":0") for word in got)
            lost = r.unit.number in touched and r.unit.kind != "rc"
            if r.number in self.ends and r.process in self.alive() and not lost and ok and not self.is_dead(r) and \
                    not self.is_dead(s):
                have = len(found.get(r.number, [[], []])[1])
                rows.append((r, NONE, max(0, sum(op in COUNTED for op in ops) - have)))
        self.watch_all(self.targets(rows), STOCK_MS)

    def await_as_stock(self, senders, loose):
        """Bystanders: as many as stock saw. Protected ones: all of their requests end."""
        rows = []
        for number, end in self.ends.items():
            if end.process not in self.alive():
                continue
            sends, recvs = self.stock.collected.get((self.step, number), (0, 0))
            if not end.unit.protected:
                rows.append((end, sends, NONE if end.unit.number in loose else recvs))
            elif number in senders:
                rows.append((end, "x", NONE))
        self.check_hangs(self.watch_all(self.targets([r for r in rows if not r[0].unit.protected]), STOCK_MS))
        self.check_hangs(self.watch_all(self.targets([r for r in rows if r[0].unit.protected]), SHIFT_MS))

    def check_hangs(self, late):
        for process, what in late:
            end = self.ends[int(what.split(":")[0])]
            sends, recvs = self.stock.collected.get((self.step, end.number), (0, 0))
            if not end.unit.protected or sends or recvs:
                raise Hang(f"{self.name(end)} of {process} waits for {what}; stock saw {sends} requests and {recvs} "
                           "receives complete")

    def await_protected_receives(self, senders, found):
        rows = []
        for s, r, ops in senders.values():
            got = found.get(s.number, [[], []])[0]
            if r.unit.protected and got and all(word.endswith(":0") for word in got) and r.process in self.alive():
                have = len(found.get(r.number, [[], []])[1])
                rows.append((r, NONE, max(0, sum(op in COUNTED for op in ops) - have)))
        for _, what in self.watch_all(self.targets(rows), SHIFT_MS):
            raise Hang(f"protected {what}: requests that completed have not arrived")

    def note_found(self, found, loose):
        for number, end in sorted(self.ends.items()):
            if end.process not in self.alive():
                continue
            sends, recvs = found.get(number, [[], []])
            self.seen.collected[(self.step, number)] = (len(sends), len(recvs))
            by = not end.unit.protected
            self.note(end.process, self.name(end), "requests", " ".join(sends), by)
            if end.unit.number not in loose:
                self.note(end.process, self.name(end), "receives", " ".join(recvs), by)

    # --- what else the program sees --------------------------------------------------------

    def events_now(self, found):
        n = 0
        for name in self.alive():
            for line in self.ask(name, "events")[0]:
                _, ctx, kind, thing, number = line.split()
                found.setdefault((name, int(ctx)), []).append(f"{kind} {thing}{number}")
                n += 1
        return n

    def do_events(self):
        found, quiet = {}, time.monotonic()
        while True:
            if self.events_now(found):
                quiet = time.monotonic()
            waited = time.monotonic() - quiet
            if waited > EVENTS_S and (waited > EVENTS_SHIFT_S or not self.is_owed(found)):
                break
            time.sleep(0.01)
        for name in self.alive():
            for ctx in sorted(self.opened(name)):
                words = [w for w in found.get((name, ctx), []) if not self.is_of_protected(w)]
                self.note(name, f"ctx{ctx}", "events", ", ".join(sorted(words)), self.concerns(name, ctx))

    def is_of_protected(self, words):
        """Is it about a queue pair that is protected, or has gone?"""
        thing = words.split()[1]
        end = self.ends.get(int(thing[2:])) if thing.startswith("qp") else None
        return thing.startswith("qp") and (not end or end.unit.protected)

    def is_owed(self, found):
        """Has stock told more of a context that bystanders use, or that its device is dead?"""
        if not self.stock:
            return False
        for (step, name, thing, what), text in self.stock.notes.items():
            if what != "events" or step > self.step or name in self.killed or not self.concerns(name, int(thing[3:])):
                continue
            have = found.get((name, int(thing[3:])), [])
            if step == self.step and text.count(",") + bool(text) > len(have):
                return True
            if FATAL in text and FATAL not in have and not self.has_told(name, thing, FATAL):
                return True
        return False

    def has_told(self, name, thing, event):
        return any(key[1:] == (name, thing, "events") and event in text for key, text in self.seen.notes.items())

    def opened(self, name):
        return {w[2].number for w in self.script.steps[:self.step] if w[0] == "ctx" and w[1] == name}

    def concerns(self, name, ctx):
        """Is somebody there who is not protected: a bystander, or nobody at all?"""
        users = [e for e in self.ends.values() if e.process == name and e.context.number == ctx]
        return not users or any(not e.unit.protected for e in users)

    def is_mixed(self, name, ctx):
        """Are protected ends there, and others?"""
        kinds = {e.unit.protected for e in self.ends.values() if e.process == name and e.context.number == ctx}
        return len(kinds) > 1

    def do_probe(self):
        for name in self.alive():
            for ctx in sorted(self.opened(name)):
                whose = "mixed" if self.is_mixed(name, ctx) else self.concerns(name, ctx)
                self.ask_noted(name, f"ctx{ctx}", whose, "probe", ctx)

    def do_states(self):
        for number, end in sorted(self.ends.items()):
            if end.process in self.alive():
                self.ask_noted(end.process, self.name(end), not end.unit.protected, "state", number)

    def do_end(self):
        for end in list(self.ends.values()):
            self.do_dropqp(end)
        for name in self.alive():
            p = self.script.processes[name]
            for i in range(p.queues):
                self.ask_noted(name, f"cq{i}", True, "dropcq", i)
            for i in range(p.channels):
                self.ask_noted(name, f"channel{i}", True, "dropchannel", i)
            for i in range(p.srqs):
                self.ask_noted(name, f"srq{i}", True, "dropsrq", i)
            for c in p.contexts:
                self.ask_noted(name, f"ctx{c.number}", True, "close", c.number)

    # --- faults ----------------------------------------------------------------------------

    def do_fault(self, kind, target):
        self.lab.fault(kind, target)
        self.began = time.monotonic()

    def do_heal(self, target):
        self.lab.ctl("heal", target)
        lasted = time.monotonic() - self.began
        if self.script.pace == "slow" and lasted > SHORT_S:
            raise Overtime(f"step {self.step}: the fault has lasted {lasted:.1f} s")

    def do_sleep(self, seconds):
        time.sleep(seconds)

    def do_gid(self, target, index):
        self.lab.ctl("move-gid", target, str(index))

    def do_drain(self, name, nic, begins):
        if self.shift and name not in self.killed:
            self.lab.shiftctl(HOSTS[name], "drain" if begins else "undrain", nic, check=False)

    def do_kill(self, name):
        self.killed.add(name)
        self.actors[name].program.end()
        self.ends = {n: e for n, e in self.ends.items() if e.process != name}
