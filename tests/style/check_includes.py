#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What each module may know of the others, held against its #include lines.

The table is the design's: a module may include the project headers listed for it, by its own
lines and by the lines of the headers that it includes, and must stay clear of what is listed as
never. Each rule is first tried on sources made up to break it, so a check that sees nothing fails.

usage: check_includes.py [ROOT]
"""
import fnmatch
import os
import re
import sys

# Headers of C itself that know no clock, thread, file or socket.
PURE_C = ["assert.h", "errno.h", "inttypes.h", "limits.h", "stdalign.h", "stdarg.h", "stdbool.h",
          "stddef.h", "stdint.h", "stdnoreturn.h", "string.h", "endian.h"]
CORE = ["shiftlib/core/*.[ch]"]
SEAM = ["providers/" + noun + ".h" for noun in (
    "callbacks", "cq", "engine", "engine_cq", "engine_qp", "move", "object", "provider", "qp", "request", "srq")]
REQUEST = ["providers/request.h"]  # what the core and the engines have in common, and all of it
DIRECT_VERBS = ["infiniband/mlx5*", "rdma/mlx5*"]
STORES = ["hiredis/*", "hiredis.h", "lmdb.h", "openssl/*"]
CLOCKS = ["pthread.h", "threads.h", "time.h", "sys/time.h", "sys/timerfd.h", "sys/socket.h",
          "netinet/*", "sys/epoll.h", "poll.h"]
QEMU = ["qemu/*", "hw/*", "qapi/*"]
NOT_SIMNIC = ["providers/*", "shiftlib/*", "libibverbs/*", "kvclient/*"] + STORES

SDR_NEVER = NOT_SIMNIC + CLOCKS + DIRECT_VERBS + ["simnic/*", "infiniband/*", "rdma/*"]
SDR_INSIDE = [f"sdr/{folder}/*" for folder in ("core", "rel", "nic", "shell", "code", "model")]  # gid/ is for all

# What each folder of shiftlib/ may include besides itself, shift.h and news.h; the lowest first. None
# may include one that comes behind it: what must be told upwards goes through news.h.
SHIFTLIB = {
    "core": [],
    "base": ["core", "KV"],  # config.h has the core's settings and names the job as the KV does
    "loop": ["base"],
    "backup": ["core", "base"],
    "facade": ["base", "SEAM"],
    "control": ["core", "base", "facade", "KV"],
    "report": ["core", "base", "loop"],
    "nic": ["core", "base", "loop", "backup", "facade", "control", "report", "SEAM"],
    "peer": ["core", "base", "loop", "control", "report", "nic", "KV", "SEAM"],
    "replica": ["core", "base", "loop", "facade", "control", "report", "nic", "peer", "SEAM"],
    "conn": ["BELOW", "KV", "SEAM"],
    "cm": ["BELOW", "SEAM"],
    "object": ["BELOW", "SEAM"],
    "admin": ["BELOW", "KV", "SEAM"],
}


def shiftlib_rules():
    """A rule for each folder; a header above it must not be reached through others either."""
    order = list(SHIFTLIB)
    for i, folder in enumerate(order):
        may = [f"shiftlib/{folder}/*", "shiftlib/shift.h", "shiftlib/news.h"]
        for word in SHIFTLIB[folder]:
            may += {"KV": ["kvclient/kv.h"], "SEAM": SEAM,
                    "BELOW": [f"shiftlib/{lower}/*" for lower in order[:i]]}.get(
                        word, [f"shiftlib/{word}/*"])
        rule = {"module": f"shiftlib/{folder}", "files": [f"shiftlib/{folder}/*"], "may": may,
                "never": [f"shiftlib/{upper}/*" for upper in order[i + 1:]] +
                         ["providers/*/*", "kvclient/backend.h"] + DIRECT_VERBS + STORES}
        if folder == "core":
            rule["may"] = CORE + REQUEST
            rule["system"] = PURE_C
            rule["never"] += CLOCKS + ["providers/[!r]*", "kvclient/*", "infiniband/*"]
        yield rule


# files: the module. may: project headers. system: only these system headers (absent: any).
# never: system or project headers that must not be reached, even through other headers.
RULES = [
    {"module": "libibverbs", "files": ["libibverbs/*"],
     "may": ["libibverbs/*", "shiftlib/shift.h"],
     "never": CORE + ["kvclient/*", "providers/*"] + DIRECT_VERBS + STORES},
    {"module": "shiftlib's own headers and process.c", "files": ["shiftlib/*.[ch]"],
     "but": ["shiftlib/*/*"],
     "may": ["shiftlib/*", "kvclient/kv.h"] + SEAM,
     "never": ["providers/*/*", "kvclient/backend.h"] + DIRECT_VERBS + STORES},
    {"module": "news that run upwards", "files": ["shiftlib/news.h"],
     "may": CORE + ["shiftlib/base/locked.h"], "never": ["kvclient/*", "providers/[!r]*"] + DIRECT_VERBS + STORES},
    {"module": "the table of engines", "files": ["providers/engine.c"],
     "may": ["providers/engine.h", "providers/ledger/ledger.h", "providers/mlx5/mlx5.h"],
     "never": ["shiftlib/*"] + DIRECT_VERBS},
    {"module": "providers", "files": ["providers/*"], "but": ["providers/engine.c"],
     "may": ["OWN", "providers/common/*"] + SEAM,
     "never": ["shiftlib/*", "kvclient/*", "simnic/*", "libibverbs/*"] + STORES},
    {"module": "kvclient", "files": ["kvclient/*"],
     "may": ["kvclient/*"],
     "never": ["infiniband/*", "rdma/*", "shiftlib/*"]},
    {"module": "kvclient without a client library", "files": ["kvclient/*"],
     "but": ["kvclient/resp/*", "kvclient/lmdb*", "kvclient/mac.c", "kvclient/tls.c"],
     "may": ["kvclient/*"], "never": STORES},
    {"module": "libshift-redis.so", "files": ["kvclient/resp/*"],
     "may": ["kvclient/resp.h"], "never": ["lmdb.h", "openssl/*"]},
    {"module": "kvclient/lmdb*", "files": ["kvclient/lmdb*"],
     "may": ["kvclient/*"], "never": ["hiredis/*", "hiredis.h", "openssl/*"]},
    {"module": "kvclient by OpenSSL", "files": ["kvclient/mac.c", "kvclient/tls.c"],
     "may": ["kvclient/*"], "never": ["hiredis/*", "hiredis.h", "lmdb.h"]},
    {"module": "simnic", "files": ["simnic/*"], "but": ["simnic/*/*"],
     "may": [], "never": NOT_SIMNIC},
    {"module": "simnic/fabric", "files": ["simnic/fabric/*"],
     "may": ["OWN"], "never": NOT_SIMNIC + ["infiniband/*", "rdma/*"]},
    {"module": "simnic/device", "files": ["simnic/device/*"],
     "may": ["OWN", "simnic/fabric/*"], "never": NOT_SIMNIC},
    {"module": "simnic/host", "files": ["simnic/host/*"],
     "may": ["OWN", "simnic/fabric/*", "simnic/device/device.h", "simnic/cm/cm.h"], "never": NOT_SIMNIC},
    {"module": "simnic/cm", "files": ["simnic/cm/*"],
     "may": ["OWN", "simnic/fabric/*", "simnic/device/device.h"], "never": NOT_SIMNIC},
    {"module": "simnic/ctl", "files": ["simnic/ctl/*"],
     "may": ["OWN", "simnic/fabric/*"], "never": NOT_SIMNIC},
    {"module": "simnic/pci", "files": ["simnic/pci/*.[ch]"], "but": ["simnic/pci/*/*"],
     "may": ["OWN", "simnic/fabric/*", "simnic/device/device.h"], "never": NOT_SIMNIC + QEMU},
    {"module": "simnic/pci/qemu", "files": ["simnic/pci/qemu/*"],  # knows of the function what a machine may call
     "may": ["OWN", "simnic/pci/function.h", "simnic/pci/fault.h"], "never": NOT_SIMNIC},
    {"module": "tools", "files": ["tools/*"], "but": ["tools/probe/*"],
     "may": ["tools/*", "kvclient/kv.h", "shiftlib/backup/*.h",
             "shiftlib/base/date.h", "shiftlib/base/few.h", "shiftlib/base/log.h", "shiftlib/base/run_dir.h",
             "shiftlib/base/settings.h", "shiftlib/base/variables.h", "shiftlib/control/version.h"],
     "never": CORE + ["providers/*", "kvclient/backend.h"] + DIRECT_VERBS + STORES},
    {"module": "shift-probe", "files": ["tools/probe/*"],
     "may": ["OWN"],
     "never": CORE + ["shiftlib/*", "providers/*", "kvclient/*", "simnic/*"] + STORES},
    {"module": "bench/cluster/storm", "files": ["bench/cluster/storm/*"],
     "may": ["OWN", "shiftlib/conn/pace.h"] + CORE, "never": CLOCKS + ["infiniband/*", "rdma/*"]},
    {"module": "uid/protocol", "files": ["uid/protocol.[ch]"], "may": ["uid/protocol.h"], "system": PURE_C,
     "never": NOT_SIMNIC + CLOCKS + DIRECT_VERBS + ["simnic/*", "infiniband/*", "rdma/*"]},
    {"module": "uid", "files": ["uid/*"], "may": ["uid/*", "include/shift/shift_uid.h"],
     "never": NOT_SIMNIC + DIRECT_VERBS + ["simnic/*"]},
    {"module": "sdr/core", "files": ["sdr/core/*"], "may": ["OWN"],
     "system": PURE_C + ["stdatomic.h"], "never": SDR_NEVER},
    {"module": "sdr/rel", "files": ["sdr/rel/*"],
     "may": ["OWN", "sdr/core/*.h", "sdr/include/sdr/model.h"],
     "system": PURE_C + ["stdatomic.h"], "never": SDR_NEVER},
    {"module": "sdr/model", "files": ["sdr/model/*"], "may": ["OWN", "sdr/include/sdr/model.h"],
     "system": PURE_C + ["math.h"], "never": SDR_NEVER},
    {"module": "sdr/nic", "files": ["sdr/nic/*"], "but": ["sdr/nic/root.c"], "may": ["OWN", "sdr/gid/gid.h"],
     "never": NOT_SIMNIC + DIRECT_VERBS + ["simnic/*", "sdr/core/*", "sdr/rel/*", "pthread.h", "time.h"]},
    {"module": "sdr/nic/root.c", "files": ["sdr/nic/root.c"], "may": ["OWN"],  # of mlx5 alone
     "never": NOT_SIMNIC + ["simnic/*", "sdr/core/*", "sdr/rel/*", "pthread.h", "time.h"]},
    {"module": "sdr/shell", "files": ["sdr/shell/*"],
     "may": ["OWN", "sdr/include/sdr/*", "sdr/core/*.h", "sdr/rel/*.h", "sdr/nic/nic.h", "sdr/code/code.h"],
     "never": NOT_SIMNIC + DIRECT_VERBS + ["simnic/*"]},
    {"module": "sdr/tools", "files": ["sdr/tools/*"], "but": ["sdr/tools/rc.c"],
     "may": ["OWN", "sdr/include/sdr/*", "kvclient/kv.h"],
     "never": ["shiftlib/*", "providers/*", "simnic/*", "infiniband/*"] + SDR_INSIDE + STORES},
    {"module": "sdr/tools/rc.c", "files": ["sdr/tools/rc.c"],  # what SDR is compared with: plain verbs
     "may": ["OWN", "sdr/include/sdr/*", "sdr/gid/gid.h"],
     "never": ["shiftlib/*", "providers/*", "simnic/*"] + SDR_INSIDE + DIRECT_VERBS + STORES},
    {"module": "sdr/nccl", "files": ["sdr/nccl/*"], "may": ["OWN", "sdr/include/sdr/*", "sdr/gid/gid.h"],
     "never": ["shiftlib/*", "providers/*", "simnic/*", "kvclient/*"] + SDR_INSIDE + DIRECT_VERBS + STORES},
    {"module": "sdr/gid", "files": ["sdr/gid/*"], "may": ["OWN"],
     "never": NOT_SIMNIC + DIRECT_VERBS + ["simnic/*", "pthread.h", "time.h"]},
    {"module": "sdr/code", "files": ["sdr/code/*"], "may": ["OWN"],
     "system": PURE_C + ["stdlib.h", "isa-l.h"], "never": SDR_NEVER},
    {"module": "sdr/code without the library", "files": ["sdr/code/*"], "but": ["sdr/code/mds.c"],
     "may": ["OWN"], "never": ["isa-l.h", "isa-l/*"]},
    {"module": "SDR's headers", "files": ["sdr/include/sdr/*"], "may": ["sdr/include/sdr/*"],
     "never": SDR_NEVER},
] + list(shiftlib_rules())

# Below these, folders include each other in one direction only.
NO_CIRCLES = ["shiftlib", "simnic", "tools", "sdr"]
# Headers of a folder, from the ground up: each may include those of lower levels only, so that no way
# leads in a circle. A header that is not named is of level 1.
LEVELS = {
    "providers/ledger": (
        ("base",),
        ("dev", "slot", "ledger"),
        ("carrier", "move"),
        ("qp", "srq"),
        ("cq", "log", "psn", "recv", "send", "wr"),
        ("backlog", "errors", "failed", "stand_in")),
    "providers/mlx5": (
        ("base", "mlx5"),
        ("key", "sq", "rq", "libmlx5"),
        ("bf", "dev", "seg", "wqe"),
        ("carrier", "srq"),
        ("cq", "doorbell", "log", "qp"),
        ("cqe", "foreign", "srq_pool", "srq_ring", "xlat"),
        ("wr_build",)),
}

# On the data path there is no table: what engines call is named.
KNOWS_A_PART = {("shiftlib/conn/callbacks.c", "shiftlib/conn/parts/srq.h")}

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(<[^>\n]+>|"[^"\n]+"|\S+)', re.M)


def matches(path, patterns):
    return any(fnmatch.fnmatchcase(path, p) for p in patterns)


class Sources:
    """Files by their path from the root, and what each includes."""

    def __init__(self, texts):
        self.texts = texts
        self.cache = {}

    def resolve(self, path, name):
        """A project file, found as the compiler would: beside the file, then from the root."""
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        for candidate in (beside, os.path.normpath(name)):
            if candidate in self.texts:
                return candidate
        return None

    def includes(self, path):
        """(name, is a project file) of each include line; <x> may name a project file, too."""
        if path not in self.cache:
            out = []
            for token in INCLUDE.findall(COMMENT.sub(" ", self.texts[path])):
                name = token[1:-1] if token[0] in '<"' else token
                own = self.resolve(path, name)
                if own:
                    out.append((own, True))
                elif token[0] == "<":
                    out.append((name, False))
                else:
                    out.append((name, None))
            self.cache[path] = out
        return self.cache[path]

    def reached(self, path):
        """Every header reached from a file: (name, is a project file, way there)."""
        seen, todo = set(), [(path, ())]
        while todo:
            at, way = todo.pop()
            for name, own in self.includes(at):
                if (name, own) in seen:
                    continue
                seen.add((name, own))
                yield name, own, way
                if own:
                    todo.append((name, way + (name,)))


def allowed_patterns(rule, path):
    own_folder = "/".join(path.split("/")[:2]) + "/*"
    return [own_folder if p == "OWN" else p for p in rule["may"]]


def check_file(rule, sources, path):
    may = allowed_patterns(rule, path)
    for name, own, way in sources.reached(path):
        if own is None:
            if not way:
                yield f"{path}: {rule['module']}: cannot find \"{name}\""
            continue
        through = f" (through {' -> '.join(way)})" if way else ""
        if matches(name, rule["never"]):
            yield f"{path}: {rule['module']} must never include {name}{through}"
        elif own and not way and not matches(name, may):
            yield f"{path}: {rule['module']} may not include {name}"
        elif not own and "system" in rule and not matches(name, rule["system"]):
            yield f"{path}: {rule['module']} may not include <{name}>{through}"


def folder_of(path):
    """A folder's rooms are part of it."""
    return "/".join(path.split("/")[:-1][:2])


def folder_arrows(sources, top):
    """Folder below top -> folder there that it includes -> the first include line that says so."""
    arrows = {}
    for path in sorted(sources.texts):
        folder = folder_of(path)
        if not path.startswith(top + "/") or folder == top:
            continue  # what lies at the top is for all folders, and has a rule of its own
        for name, own in sources.includes(path):
            other = folder_of(name)
            if own and name.startswith(top + "/") and other not in (folder, top):
                arrows.setdefault(folder, {}).setdefault(other, f"{path} includes {name}")
    return arrows


def circles(arrows):
    """One line for each arrow that closes a circle of folders."""
    found, done = [], set()

    def visit(folder, way):
        for other, line in sorted(arrows.get(folder, {}).items()):
            if other in way:
                found.append(f"{line}: a circle of {' -> '.join(way[way.index(other):] + [other])}")
            elif other not in done:
                visit(other, way + [other])
        done.add(folder)

    for folder in sorted(arrows):
        if folder not in done:
            visit(folder, [folder])
    return found


def room_of(path):
    """The room of a file of conn/ (shiftlib/conn/part.h); None: it is in none."""
    parts = path.split("/")
    return parts[2] if parts[:2] == ["shiftlib", "conn"] and len(parts) == 4 else None


def check_rooms(sources):
    """conn/ includes no part, but what each keeps in a connection (state.h); rooms include each other in one direction."""
    arrows = {}
    for path in sorted(sources.texts):
        if not path.startswith("shiftlib/conn/"):
            continue
        room = room_of(path)
        for name, own in sources.includes(path):
            other, is_state = room_of(name), name.endswith("/state.h")
            if not own or not name.startswith("shiftlib/conn/"):
                continue
            if path.endswith("/state.h"):
                yield f"{path}: what a part keeps may not include {name}"
            elif room is None and other and not (is_state and path.endswith(".h")) and (path, name) not in KNOWS_A_PART:
                yield f"{path}: conn/ itself may not include {name}, of a part"
            elif room and other and other != room and not is_state:
                arrows.setdefault(room, {}).setdefault(other, f"{path} includes {name}")
    yield from circles(arrows)


def level_of(levels, path):
    noun = os.path.basename(path)[:-len(".h")]
    return next((n for n, nouns in enumerate(levels) if noun in nouns), 1)


def check_levels(sources, folder, levels):
    headers = [p for p in sources.texts if os.path.dirname(p) == folder and p.endswith(".h")]
    for path in sorted(headers):
        for name, own in sources.includes(path):
            if own and os.path.dirname(name) == folder and \
                    level_of(levels, name) >= level_of(levels, path):
                yield f"{path}: {folder}: {name} is not of a lower level"


def check(texts):
    sources = Sources(texts)
    found = [line for top in NO_CIRCLES for line in circles(folder_arrows(sources, top))]
    for folder, levels in LEVELS.items():
        found += check_levels(sources, folder, levels)
    found += check_rooms(sources)
    for rule in RULES:
        for path in sorted(texts):
            if matches(path, rule["files"]) and not matches(path, rule.get("but", [])):
                found += check_file(rule, sources, path)
    return found + list(borrowed(texts))


DECLARED = re.compile(r"^(?!static|typedef|extern)[a-z][\w *]*?\b(sh_\w+)\([^;{]*\)[A-Z_ ]*;", re.M)
DEFINED = re.compile(r"^(?!static)[a-z_][^;{}=#]*?\b(sh_\w+)\([^;{}]*\)\n\{", re.M)


def borrowed(texts):
    """A function that a folder of shiftlib/ declares and another one defines: an arrow up in disguise."""
    plain = {path: COMMENT.sub(" ", text) for path, text in texts.items()
             if path.startswith("shiftlib/")}
    home = {name: os.path.dirname(path) for path, text in plain.items() if path.endswith(".c")
            for name in DEFINED.findall(text)}
    for path, text in sorted(plain.items()):
        if not path.endswith(".h") or path in ("shiftlib/news.h", "shiftlib/shift.h"):
            continue
        for name in DECLARED.findall(text):
            if home.get(name, os.path.dirname(path)) != os.path.dirname(path):
                yield f"{path}: {name}() is defined in {home[name]}/"


def read_tree(root):
    texts = {}
    for top in sorted({rule["files"][0].split("/")[0] for rule in RULES} | {"include"}):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in names:
                if name.endswith((".c", ".h")):
                    full = os.path.join(folder, name)
                    with open(full, encoding="utf-8", errors="replace") as f:
                        texts[os.path.relpath(full, root)] = f.read()
    return texts


def self_test():
    """Sources that break one rule each, and some that look like it and do not."""
    base = {
        "shiftlib/shift.h": "#include <infiniband/verbs.h>\n",
        "shiftlib/core/core.h": "#include <stdint.h>\n",
        "shiftlib/news.h": "", "shiftlib/base/list.h": "", "shiftlib/conn/qp.h": "",
        "shiftlib/conn/meet/intro.h": "", "shiftlib/conn/meet/state.h": "", "shiftlib/conn/told/stats.h": "",
        "shiftlib/nic/nic.h": '#include "shiftlib/base/list.h"\nvoid sh_nic_ask(int nic);\n',
        "shiftlib/leak.h": '#include "kvclient/kv.h"\n',
        "providers/request.h": "#include <stdint.h>\n",
        "providers/provider.h": "#include <infiniband/verbs.h>\n",
        "providers/mlx5/mlx5.h": '#include "providers/provider.h"\n',
        "providers/mlx5/base.h": "#include <infiniband/mlx5dv.h>\n",
        "providers/mlx5/qp.h": "", "providers/mlx5/sq.h": "", "providers/mlx5/xlat.h": "",
        "kvclient/kv.h": "#include <stddef.h>\n", "kvclient/backend.h": "", "kvclient/resp.h": "",
        "simnic/fabric/fabric.h": "", "simnic/device/device.h": '#include "simnic/fabric/fabric.h"\n',
        "simnic/pci/pci.h": "", "simnic/pci/function.h": "", "simnic/pci/qemu/device.h": "#include <qemu/osdep.h>\n",
        "simnic/device/qp.h": "", "simnic/host/ctx.h": "", "simnic/ctl/simnicctl.h": "", "tools/shiftctl.h": '#include "shiftlib/backup/map.h"\n',
        "shiftlib/backup/map.h": "", "sdr/core/core.h": "", "sdr/rel/rel.h": "",
        "sdr/include/sdr/model.h": "",
    }
    bad = [
        ("libibverbs/a.c", '#include "kvclient/kv.h"'),
        ("libibverbs/a.c", '#include "../shiftlib/core/core.h"'),
        ("libibverbs/a.c", '#include "shiftlib/nic/nic.h"'),
        ("libibverbs/a.c", "#include <infiniband/mlx5dv.h>"),
        ("libibverbs/a.c", "#include <shiftlib/core/core.h>"),
        ("shiftlib/core/a.c", "#include <pthread.h>"),
        ("shiftlib/core/a.c", "#include <time.h>"),
        ("shiftlib/core/a.c", "# include <stdio.h>"),
        ("shiftlib/core/a.c", '#include "../nic/nic.h"'),
        ("shiftlib/core/settle.c", '#include "providers/provider.h"'),
        ("shiftlib/core/settle.c", '#include "providers/engine.h"'),
        ("shiftlib/base/a.c", '#include "shiftlib/nic/nic.h"'),
        ("shiftlib/loop/a.c", '#include "shiftlib/core/core.h"'),
        ("shiftlib/nic/a.c", '#include "shiftlib/conn/qp.h"'),
        ("shiftlib/nic/a.c", '#include "../conn/qp.h"'),
        ("shiftlib/nic/nic.h", '#include "shiftlib/conn/qp.h"'),
        ("shiftlib/news.h", '#include "shiftlib/conn/qp.h"'),
        ("shiftlib/conn/a.c", '#include "providers/mlx5/base.h"'),
        ("shiftlib/conn/a.c", '#include "shiftlib/conn/meet/intro.h"'),
        ("shiftlib/conn/a.c", '#include "shiftlib/conn/meet/state.h"'),
        ("shiftlib/conn/a.h", '#include "shiftlib/conn/meet/intro.h"'),
        ("shiftlib/conn/meet/state.h", '#include "shiftlib/conn/qp.h"'),
        ("shiftlib/conn/a.c", "#include <hiredis/hiredis.h>"),
        ("shiftlib/conn/a.c", "#include <infiniband/mlx5dv.h>"),
        ("shiftlib/conn/a.c", '#include "kvclient/backend.h"'),
        ("shiftlib/process.c", '#include "providers/mlx5/base.h"'),
        ("shiftlib/process.c", '#include "no_such_file.h"'),
        ("providers/mlx5/a.c", '#include "shiftlib/core/core.h"'),
        ("providers/mlx5/a.c", '#include "simnic/fabric/fabric.h"'),
        ("providers/mlx5/a.c", '#include "kvclient/kv.h"'),
        ("providers/engine.c", '#include "providers/mlx5/base.h"'),
        ("providers/portable/a.c", '#include "providers/mlx5/base.h"'),
        ("providers/mlx5/sq.h", '#include "providers/mlx5/qp.h"'),
        ("providers/mlx5/qp.h", '#include "providers/mlx5/xlat.h"'),
        ("providers/mlx5/hold.h", '#include "qp.h"'),
        ("kvclient/keys.c", "#include <infiniband/verbs.h>"),
        ("kvclient/keys.c", "#include <lmdb.h>"),
        ("kvclient/lmdb.c", "#include <hiredis/hiredis.h>"),
        ("kvclient/redis.c", "#include <hiredis/hiredis.h>"),
        ("kvclient/redis_link.c", "#include <openssl/ssl.h>"),
        ("kvclient/resp/hiredis.c", "#include <openssl/ssl.h>"),
        ("kvclient/resp/hiredis.c", '#include "kvclient/backend.h"'),
        ("simnic/ctl/a.c", '#include "providers/mlx5/base.h"'),
        ("simnic/a.c", '#include "simnic/fabric/fabric.h"'),
        ("simnic/ctl/a.c", '#include "simnic/device/device.h"'),
        ("simnic/ctl/a.c", '#include "simnic/host/ctx.h"'),
        ("simnic/host/a.c", '#include "simnic/device/qp.h"'),
        ("simnic/pci/a.c", '#include "simnic/device/qp.h"'),
        ("simnic/pci/a.c", '#include "simnic/pci/qemu/device.h"'),
        ("simnic/pci/a.c", "#include <hw/pci/pci.h>"),
        ("simnic/pci/qemu/a.c", '#include "simnic/device/device.h"'),
        ("simnic/host/a.c", '#include "simnic/pci/function.h"'),
        ("simnic/host/a.c", '#include "simnic/ctl/simnicctl.h"'),
        ("simnic/device/a.c", '#include "simnic/host/ctx.h"'),
        ("simnic/cm/a.c", '#include "simnic/device/qp.h"'),
        ("simnic/host/a.c", '#include "simnic/cm/id.h"'),
        ("simnic/device/a.c", '#include "simnic/ctl/simnicctl.h"'),
        ("simnic/fabric/a.c", '#include "simnic/device/device.h"'),
        ("simnic/fabric/a.c", '#include "simnic/ctl/simnicctl.h"'),
        ("simnic/fabric/a.c", "#include <infiniband/mlx5dv.h>"),

        ("simnic/a.c", '#include "providers/mlx5/base.h"'),
        ("simnic/device/a.c", '#include "shiftlib/shift.h"'),
        ("tools/a.c", '#include "shiftlib/core/core.h"'),
        ("tools/a.c", '#include "kvclient/backend.h"'),
        ("tools/a.c", "#include <infiniband/mlx5dv.h>"),
        ("tools/probe/a.c", '#include "providers/mlx5/base.h"'),
        ("tools/probe/a.c", '#include "tools/shiftctl.h"'),
        ("sdr/core/a.c", "#include <pthread.h>"),
        ("sdr/core/a.c", "#include <infiniband/verbs.h>"),
        ("sdr/core/a.c", '#include "sdr/rel/rel.h"'),
        ("sdr/rel/a.c", "#include <time.h>"),
        ("sdr/rel/a.c", '#include "shiftlib/core/core.h"'),
        ("sdr/model/a.c", '#include "sdr/core/core.h"'),
        ("sdr/nic/a.c", "#include <infiniband/mlx5dv.h>"),
        ("sdr/nic/root.c", '#include "sdr/core/core.h"'),
        ("sdr/code/gf.c", "#include <isa-l.h>"),
        ("sdr/include/sdr/model.h", '#include "sdr/core/core.h"'),
        ("sdr/tools/a.c", "#include <infiniband/verbs.h>"),
        ("sdr/tools/rc.c", "#include <infiniband/mlx5dv.h>"),
    ]
    good = [
        ("libibverbs/a.c", '#include <infiniband/verbs.h>\n#include "shiftlib/shift.h"'),
        ("libibverbs/a.c", '/* #include "kvclient/kv.h" */\n// #include <lmdb.h>'),
        ("shiftlib/core/a.c", '#include "providers/request.h"'),
        ("shiftlib/core/a.c", '#include "core.h"\n#include <string.h>'),
        ("shiftlib/conn/a.c", '#include "shiftlib/nic/nic.h"\n#include <pthread.h>'),
        ("shiftlib/conn/a.h", '#include "shiftlib/conn/meet/state.h"'),
        ("shiftlib/conn/meet/a.c", '#include "shiftlib/conn/qp.h"\n#include "shiftlib/conn/told/stats.h"'),
        ("shiftlib/nic/a.c", '#include "shiftlib/news.h"\n#include "shiftlib/base/list.h"'),
        ("shiftlib/nic/nic.c", "void sh_nic_ask(int nic)\n{\n}\n"),
        ("shiftlib/process.c", '#include "shiftlib/conn/qp.h"'),
        ("providers/mlx5/a.c", '#include "base.h"\n#include "providers/provider.h"'),
        ("providers/engine.c", '#include "providers/mlx5/mlx5.h"'),
        ("providers/mlx5/qp.h", '#include "providers/mlx5/sq.h"'),
        ("providers/mlx5/hold.h", '#include "base.h"'),
        ("kvclient/resp/hiredis.c", '#include <hiredis/hiredis.h>\n#include "kvclient/resp.h"'),
        ("kvclient/tls.c", '#include <openssl/ssl.h>\n#include "kvclient/backend.h"'),
        ("kvclient/lmdb.c", "#include <lmdb.h>"),
        ("simnic/device/a.c", '#include <infiniband/mlx5dv.h>\n#include "simnic/fabric/fabric.h"'),
        ("simnic/host/a.c", '#include "simnic/device/device.h"\n#include "ctx.h"'),
        ("simnic/ctl/a.c", '#include "simnic/fabric/fabric.h"'),
        ("simnic/pci/a.c", '#include "pci.h"\n#include "simnic/device/device.h"'),
        ("simnic/pci/qemu/a.c", '#include "simnic/pci/qemu/device.h"\n#include "simnic/pci/function.h"'),
        ("tools/a.c", '#include "tools/shiftctl.h"\n#include "kvclient/kv.h"'),
        ("tools/probe/a.c", "#include <infiniband/mlx5dv.h>"),
        ("sdr/rel/a.c", '#include "sdr/core/core.h"\n#include "sdr/include/sdr/model.h"'),
        ("sdr/code/mds.c", "#include <isa-l.h>"),
        ("sdr/tools/rc.c", "#include <infiniband/verbs.h>"),
    ]
    wrong = [f"not found: {line} in {path}" for path, line in bad
             if not any(v.startswith(path) for v in check({**base, path: line}))]
    wrong += [f"falsely found: {v}" for path, line in good
              for v in check({**base, path: line}) if v.startswith(path)]
    # A header that leads on to a forbidden one is found out, too.
    leak = check({**base, "shiftlib/shift.h": '#include "leak.h"\n',
                  "libibverbs/a.c": '#include "shiftlib/shift.h"'})
    if not any("through shiftlib/shift.h -> shiftlib/leak.h" in v for v in leak):
        wrong.append("a leak through two headers is not found")
    # Two folders that include each other, and three in a ring; a row of three is none.
    mutual = check({**base, "shiftlib/conn/meet/a.c": '#include "shiftlib/conn/told/stats.h"',
                    "shiftlib/conn/told/a.c": '#include "shiftlib/conn/meet/intro.h"'})
    if sum("a circle of" in line for line in mutual) != 1:
        wrong.append("two rooms that include each other are not found")
    row = {"simnic/a/a.h": '#include "simnic/b/b.h"', "simnic/b/b.h": '#include "simnic/c/c.h"',
           "simnic/c/c.h": ""}
    ring = {**row, "simnic/c/c.h": '#include "simnic/a/a.h"'}
    pair = {**row, "simnic/b/b.h": '#include "simnic/a/a.h"'}
    for texts, n in ((row, 0), (ring, 1), (pair, 1)):
        if sum("a circle of" in line for line in check(texts)) != n:
            wrong.append(f"not {n} circle(s) of folders: {texts}")
    disguised = check({**base, "shiftlib/conn/a.c": "void sh_nic_ask(int nic)\n{\n}\n"})
    if not any("sh_nic_ask() is defined in shiftlib/conn/" in v for v in disguised):
        wrong.append("a function that a lower folder declares and a higher one defines is not found")
    return wrong


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..", "..")
    wrong = self_test()
    for line in wrong:
        print(f"check_includes.py does not work: {line}")
    texts = read_tree(root)
    if not texts:
        wrong.append("no sources")
        print(f"check_includes.py: no sources under {root}")
    found = check(texts)
    for line in found:
        print(line)
    if not wrong and not found:
        print(f"{len(texts)} files keep to the include table")
    return 1 if wrong or found else 0


if __name__ == "__main__":
    sys.exit(main())
