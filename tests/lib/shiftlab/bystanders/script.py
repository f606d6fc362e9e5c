# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""
What happens, all of it drawn from one seed: the objects of three processes, and steps that each process and the fabric take
one after the other. Nothing here depends on what happens when it is run.

Three processes, one on each host: A and B have SHIFT in the run under SHIFT, C never has. A unit is two queue pairs that are
connected. An RC unit between A and B, or of A with itself, is protected; each other is a bystander.

  slow    retries last 4.3 s, and no fault lasts longer than 0.4 s: stock outlives all
  quick   retries last 1.1 s, and a fault ends when stock's queue pairs have had their errors
"""
import random

HOSTS = {"A": "h0", "B": "h1", "C": "h2"}
TIMEOUT = {"slow": 17, "quick": 15}
MAX_UNITS = 30
RECEIVES = 16
SMALL = 15
BIG = 1023
RESERVE = 64    # receives of a shared queue beyond what is awaited: docs/srq.md#limits says what happens with fewer than queue pairs
OPS = {"rc": "ssiwWr", "uc": "ssiwW", "ud": "ssi"}
COUNTED = "siW"


class Queue:
    """A completion queue: room is what its users may still need at once."""

    def __init__(self, number, ctx, channel, entries, solicited):
        self.number = number
        self.ctx = ctx
        self.channel = channel
        self.entries = entries
        self.room = entries
        self.solicited = solicited


class Context:
    def __init__(self, number, nic):
        self.number = number
        self.nic = nic
        self.queues = []
        self.srq = -1
        self.dead = False       # its NIC has died: it never comes back

    @property
    def device(self):
        return f"mlx5_{self.nic}"


class Process:
    def __init__(self, name):
        self.name = name
        self.contexts = []
        self.queues = 0
        self.channels = 0
        self.srqs = 0
        self.killed = False


class End:
    """One of a unit's two queue pairs."""

    def __init__(self, unit, side, process, context):
        self.unit = unit
        self.side = side
        self.process = process
        self.context = context
        self.number = 2 * unit.number + side
        self.send_cq = self.recv_cq = None
        self.srq = -1

    @property
    def nic(self):
        return f"{HOSTS[self.process]}/{self.context.device}"


class Unit:
    def __init__(self, number, kind, shape, foreign=False):
        self.number = number
        self.kind = kind
        self.foreign = foreign  # in a parent domain with the program's own allocators: SHIFT leaves it alone
        self.shape = shape      # "few": up to 8 requests; "burst": many, of which few are signaled
        self.ends = []
        self.every = 16 if shape == "burst" else 1
        self.most = 1           # requests of one batch, if few
        self.all_signaled = False
        self.gone = False

    @property
    def protected(self):
        return self.kind == "rc" and not self.foreign and all(e.process != "C" for e in self.ends)

    def crosses(self, target):
        """Does its way lead over this NIC, or this switch?"""
        if target.startswith("rail"):
            return any(e.context.nic == int(target[4:]) for e in self.ends)
        return any(e.nic == target for e in self.ends)

    def __str__(self):
        a, b = (f"{e.process}{e.context.number}" for e in self.ends)
        return f"{self.kind}{'-foreign' if self.foreign else ''}{self.number} {a}-{b}"


class Script:
    def __init__(self, seed, only=None, tight=False):
        self.seed = seed
        self.r = random.Random(seed)
        self.pace = self.r.choice(("slow", "slow", "quick"))
        self.timeout = TIMEOUT[self.pace]
        self.processes = {name: Process(name) for name in HOSTS}
        self.units = []
        self.steps = []
        self.told = []      # for a reader
        self.over = False
        self.reserve = 0 if tight else RESERVE
        self.draw_contexts()
        self.draw_first_units()
        self.add("events")
        self.round()
        for _ in range(self.r.randint(1, 3)):
            if not self.over:
                self.episode(only)
        self.add("events")
        self.add("states")
        self.add("end")

    def __str__(self):
        return f"seed {self.seed} {self.pace}: {len(self.units)} units ({', '.join(map(str, self.units))}): " + \
            "; ".join(self.told)

    def add(self, what, *rest):
        self.steps.append((what, *rest))

    # --- objects ---------------------------------------------------------------------------

    def draw_contexts(self):
        for name, p in self.processes.items():
            self.open(p, 0)
            if name != "C" and self.r.random() < 0.3:
                self.open(p, 0)
            if self.r.random() < 0.4:
                self.open(p, 1)

    def open(self, p, nic):
        ctx = Context(len(p.contexts), nic)
        p.contexts.append(ctx)
        self.add("ctx", p.name, ctx)
        channel = self.new_channel(p, ctx) if self.r.random() < 0.5 else -1
        for _ in range(self.r.randint(1, 3)):
            self.new_queue(p, ctx, channel if self.r.random() < 0.6 else -1, self.r.choice((SMALL, SMALL, SMALL, 127, BIG)))
        if self.r.random() < 0.5:
            ctx.srq = p.srqs
            p.srqs += 1
            self.add("srq", p.name, ctx, ctx.srq)
        return ctx

    def new_channel(self, p, ctx):
        p.channels += 1
        self.add("channel", p.name, ctx, p.channels - 1)
        return p.channels - 1

    def new_queue(self, p, ctx, channel, entries, solicited=False):
        q = Queue(p.queues, ctx, channel, entries, solicited)
        p.queues += 1
        ctx.queues.append(q)
        self.add("cq", p.name, q)
        return q

    def queue_for(self, p, ctx, need, recv_only=False):
        fits = [q for q in ctx.queues if q.room >= need and (recv_only or not q.solicited)]
        small = [q for q in fits if q.entries == SMALL]
        if fits and self.r.random() < 0.9:
            q = self.r.choice(small if small and self.r.random() < 0.7 else fits)
        else:
            channel = self.new_channel(p, ctx) if self.r.random() < 0.3 and p.channels < 24 else -1
            q = self.new_queue(p, ctx, channel, BIG, channel >= 0 and recv_only and self.r.random() < 0.5)
        q.room -= need
        return q

    def need(self, unit):
        """Entries for its requests: what is signaled; where stock's queue pairs fail, all of them."""
        if unit.shape == "burst":
            return 112 if self.pace == "quick" else 7
        return unit.most

    def need_of_receives(self, unit):
        return 1 if unit.shape == "burst" else unit.most

    def draw_end(self, unit, side, process):
        p = self.processes[process]
        ctx = self.r.choice([c for c in p.contexts if not c.dead and c.nic == unit.nic])
        end = End(unit, side, process, ctx)
        need, receives = self.need(unit), self.need_of_receives(unit)
        if self.r.random() < 0.5:
            end.send_cq = end.recv_cq = self.queue_for(p, ctx, need + receives)
        else:
            end.send_cq = self.queue_for(p, ctx, need)
            end.recv_cq = self.queue_for(p, ctx, receives, recv_only=True)
        # Foreign ones cannot share a receive queue with driven ones (docs/srq.md#limits).
        if unit.kind != "uc" and not unit.foreign and self.r.random() < 0.4:
            end.srq = ctx.srq
        return end

    def nics_of(self, process):
        return {c.nic for c in self.processes[process].contexts if not c.dead}

    def unit(self, kind, processes, foreign=False):
        nics = self.nics_of(processes[0]) & self.nics_of(processes[1])
        if not nics or len(self.units) >= MAX_UNITS or any(self.processes[p].killed for p in processes):
            return None
        unit = Unit(len(self.units), kind, "burst" if kind == "rc" and self.r.random() < 0.25 else "few",
                    foreign)
        unit.nic = 0 if 0 in nics and self.r.random() < 0.8 else self.r.choice(sorted(nics))
        unit.all_signaled = unit.shape == "few" and self.r.random() < 0.3
        if unit.shape == "few":
            unit.every = self.r.choice((1, 1, 2, 4))
            unit.most = self.r.choice((2, 3, 5, 8))
        unit.ends = [self.draw_end(unit, side, p) for side, p in enumerate(processes)]
        self.units.append(unit)
        for e in unit.ends:
            self.add("qp", e)
        self.add("connect", unit)
        return unit

    def draw_first_units(self):
        for _ in range(self.r.randint(1, 3)):
            self.unit("rc", "AB")
        for kind, processes, likely in (("rc", "AC", 0.8), ("rc", "BC", 0.3), ("ud", "AC", 0.5), ("ud", "AB", 0.5),
                                        ("uc", "AB", 0.4), ("uc", "AC", 0.3), ("rc", "AA", 0.25), ("uc", "AA", 0.15),
                                        ("rc", "AC", 0.3)):
            if self.r.random() < likely:
                self.unit(kind, processes)
        for processes, likely in (("AB", 0.3), ("AA", 0.1)):
            if self.r.random() < likely:
                self.unit("rc", processes, foreign=True)
        self.add("protection")

    def late_units(self):
        """Connections and objects that are made now."""
        new = []
        for _ in range(self.r.randint(1, 2)):
            kind, processes = self.r.choice((("rc", "AC"), ("rc", "AB"), ("ud", "AC"), ("uc", "AC"), ("ud", "AB"),
                                             ("rc", "BC")))
            if self.r.random() < 0.5:
                name = self.r.choice(processes)
                p = self.processes[name]
                for ctx in [c for c in p.contexts if not c.dead and not p.killed]:
                    self.new_queue(p, ctx, -1, self.r.choice((SMALL, BIG)))
            made = self.unit(kind, processes)
            if made:
                new.append(made)
        self.told.append("late " + (", ".join(map(str, new)) or "none"))

    # --- traffic ---------------------------------------------------------------------------

    def live_units(self):
        return [u for u in self.units if not u.gone]

    def ops(self, unit):
        if unit.shape == "burst":
            return "w" * self.r.choice((31, 63, 111)) + "s"     # 2, 4 and 7 are signaled
        kinds = OPS[unit.kind] + ("a" if unit.kind == "rc" and not unit.protected else "")
        return "".join(self.r.choice(kinds) for _ in range(self.r.randint(1, unit.most)))

    def batch(self):
        """[(sender, receiver, requests, bytes)]"""
        found = []
        for unit in self.live_units():
            for sender, receiver in (unit.ends, unit.ends[::-1]):
                if self.r.random() < 0.75:
                    found.append((sender, receiver, self.ops(unit), self.r.choice((64, 64, 300, 1024))))
        return found

    def post(self):
        batch = self.batch()
        self.add("post", batch)
        return batch

    def collect(self, batch, target=None, in_flight=False):
        """in_flight: a fault of target began or ended while it was under way, which a datagram may have met or not."""
        self.add("collect", batch, {u.number for u in self.units if target and in_flight and u.kind != "rc" and
                                    any(u.crosses(t) for t in target)},
                 {u.number for u in self.units if target and any(u.crosses(t) for t in target)})

    def round(self):
        self.collect(self.post())

    # --- faults ----------------------------------------------------------------------------

    def episode(self, only):
        kinds = {"slow": ("flap", "flap", "flap", "silent", "hang", "gid", "drain", "retire"),
                 "quick": ("die", "die", "death", "death", "death", "kill", "gid")}[self.pace]
        kind = only if only in kinds else self.r.choice(kinds)
        getattr(self, kind)()
        if not self.over and self.r.random() < 0.5:
            self.late_units()
            self.round()

    def target(self, nic=0):
        return f"{HOSTS[self.r.choice('AAABC')]}/mlx5_{nic if self.r.random() < 0.85 else 1 - nic}"

    def begin(self, kind, target):
        self.told.append(f"{kind} {target}")
        self.add("fault", kind, target)

    def flap(self):
        kind, target = self.r.choice(("port-down", "cable-down")), self.target()
        self.short(kind, target)

    def silent(self):
        kind = self.r.choice(("switch-down", "lose-tx", "lose-rx"))
        self.short(kind, f"rail{self.r.choice((0, 0, 1))}" if kind == "switch-down" else self.target())

    def short(self, kind, target):
        """Traffic meets its beginning, or lies wholly in it, or both beginnings and end are quiet."""
        when = self.r.choice(("before", "within", "quiet"))
        batch = self.post() if when == "before" else None
        self.begin(kind, target)
        if when == "within":
            batch = self.post()
        if self.r.random() < 0.4:
            self.add("probe")
        self.add("sleep", self.r.choice((0.05, 0.2, 0.4)))
        self.add("heal", target)
        if batch:
            self.collect(batch, (target,), True)
        self.add("events")
        self.round()

    def hang(self):
        target = self.target()
        self.begin("nic-hang", target)
        batch = self.post()
        self.add("sleep", self.r.choice((0.1, 0.3)))
        self.add("heal", target)
        self.collect(batch, (target,), True)
        self.add("events")
        self.round()

    def gid(self):
        target = self.target()
        self.told.append(f"move-gid {target}")
        self.add("gid", target, self.r.randint(4, 12))
        self.add("events")
        self.add("probe")
        self.late_units()
        self.round()

    def drain(self):
        """An order to SHIFT: stock has none, and no bystander may see anything."""
        name = self.r.choice("AB")
        self.told.append(f"drain {name}")
        batch = self.post()
        self.add("drain", name, "mlx5_0", True)
        self.collect(batch)
        self.add("events")
        self.round()
        self.add("probe")
        self.add("drain", name, "mlx5_0", False)
        self.round()

    def retire(self):
        """Units go, and others are made in their place."""
        for unit in self.r.sample(self.live_units(), min(2, len(self.live_units()))):
            self.drop(unit)
        self.late_units()
        self.round()

    def drop(self, unit):
        unit.gone = True
        self.told.append(f"drop {unit}")
        for e in unit.ends:
            if not self.processes[e.process].killed:
                self.add("dropqp", e)
                e.send_cq.room += self.need(unit)
                e.recv_cq.room += self.need_of_receives(unit)

    def die(self):
        """Stock's queue pairs get their errors; then all is well, and some are reset and connected again."""
        kind = self.r.choice(("port-down", "cable-down", "switch-down"))
        target = f"rail{self.r.choice((0, 0, 0, 1))}" if kind == "switch-down" else self.target()
        self.begin(kind, target)
        self.collect(self.post(), (target,))
        self.add("events")
        self.add("probe")
        if self.r.random() < 0.4:
            self.late_units()
        self.add("heal", target)
        self.add("events")
        self.again(target)
        self.round()

    def again(self, target):
        """A queue pair of a shared receive queue that has moved cannot be used again: docs/srq.md#limits."""
        for unit in self.live_units():
            if unit.kind == "rc" and unit.crosses(target):
                if self.r.random() < 0.3 or (unit.protected and any(e.srq >= 0 for e in unit.ends)):
                    self.drop(unit)
                else:
                    self.add("reset", unit)

    def death(self):
        """A NIC dies and is another device afterwards. The program closes all and opens it anew, or lives on without."""
        name = self.r.choice([name for name in "AAABC" if not self.processes[name].killed])
        p = self.processes[name]
        target = f"{HOSTS[name]}/mlx5_0"
        self.begin("nic-internal-error", target)
        self.add("events")
        for c in p.contexts:
            c.dead |= c.nic == 0
        self.add("dead", name, [c.number for c in p.contexts if c.dead])
        batch = self.post()
        self.collect(batch, (target,))
        self.add("probe")
        self.add("heal", target)
        self.add("events")
        follows = self.r.random() < 0.6
        self.told.append("all is opened anew" if follows else "protected ones go")
        for unit in self.live_units():
            if unit.crosses(target) and (follows or unit.protected):
                self.drop(unit)
        self.add("events")
        self.add("probe")
        for unit in self.live_units():      # those that stay get no more traffic: stock's are dead
            unit.gone |= unit.crosses(target)
        if follows:
            self.open(p, 0)
            self.unit("rc", "AC")
            self.unit("rc", "AB")
            self.add("protection")
        self.round()

    def kill(self):
        alive = [name for name in "CCB" if not self.processes[name].killed]
        if not alive:
            self.round()
            return
        name = self.r.choice(alive)
        self.told.append(f"kill {name}")
        self.add("kill", name)
        self.processes[name].killed = True
        batch = self.post_alive(name)
        self.collect(batch, (f"{HOSTS[name]}/mlx5_0", f"{HOSTS[name]}/mlx5_1"))
        self.add("events")
        for unit in self.live_units():
            unit.gone |= any(e.process == name for e in unit.ends)
        self.round()

    def post_alive(self, name):
        batch = [row for row in self.batch() if row[0].process != name]
        self.add("post", batch)
        return batch
