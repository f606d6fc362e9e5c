#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Cross-compiles the engine for arm64 and looks at the instructions: on every path, a barrier
between requests and doorbell record, between record and register, and behind the register; and one
between a CQE's last byte and the others.
Usage: arm64.py [TREE]. Ends 0, 1 (a barrier is missing) or 77 (no cross compiler)."""
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CC, OBJDUMP = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-objdump"
# file, function, whether it writes a doorbell register behind the record
FUNCTIONS = (("sq.c", "ring_post_send", True), ("sq.c", "post_send_xlat", True),
             ("wr.c", "wr_complete", True), ("wr.c", "ring_xlat_wr_complete", True),
             ("rq.c", "post_recv_plain", False), ("rq.c", "post_recv_xlat", False),
             ("rq.c", "post_recv_any", False), ("rq.c", "ring_rq_publish", False),
             ("cq.c", "ring_cq_arm_ring", True))
POLLERS = ("cq.c", "cq_ex.c", "driven_cq.c", "foreign.c", "reclaim.c")
START, WRITTEN, READY, RECORD, GO, RUNG = "start", "written", "ready", "record", "go", "rung"


@functools.cache
def disassemble(tree, file):
    """{function: [(address, mnemonic, operands)]}"""
    with tempfile.TemporaryDirectory() as tmp:
        obj = os.path.join(tmp, "x.o")
        # outlined locks would hide their stores
        subprocess.run([CC, "-O2", "-std=gnu11", "-w", "-D_GNU_SOURCE",
                        "-fno-strict-aliasing", "-mno-outline-atomics", "-I", tree,
                        "-c", os.path.join(tree, "providers", "mlx5", file),
                        "-o", obj], check=True)
        text = subprocess.run([OBJDUMP, "-d", "--no-show-raw-insn", obj], check=True,
                              capture_output=True, text=True).stdout
    functions, code = {}, None
    for line in text.splitlines():
        head = re.match(r"[0-9a-f]+ <([^>]+)>:", line)
        insn = re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line)
        if head:
            code = functions.setdefault(head[1], [])
        elif insn:
            code.append((int(insn[1], 16), insn[2], insn[3]))
    return functions


def classify(op, args):
    """A record is stored with release, by other than the zero register, which unlocks."""
    if op in ("dmb", "dsb"):
        return op
    if op == "stlr":
        return "unlock" if args.startswith("wzr") else "record"
    if re.match(r"st(p|r|ur)$", op) and not re.search(r"\[sp", args):
        return "wide" if args[0] in "xq" else "store"
    return None


def step(state, kind, register):
    """The next state, and what is wrong."""
    if kind in ("dmb", "dsb"):
        return {WRITTEN: READY, START: READY, RECORD: GO if kind == "dsb" else RECORD,
                RUNG: GO if kind == "dsb" else RUNG}.get(state, state), None
    if kind == "record":
        return RECORD, "no barrier before the record" if state in (WRITTEN, START) and not (
            state == START and register == "arm") else None
    if kind in ("wide", "store") and state in (START, WRITTEN, READY):
        return WRITTEN, None
    if kind == "wide" and register:
        return RUNG, "no dsb between record and register" if state == RECORD else None
    if kind == "unlock" and state == RUNG:
        return state, "no dsb between register and unlock"
    return state, None


def follow(code, index, i):
    """The instructions that may come next."""
    _, op, args = code[i]
    target = re.search(r"([0-9a-f]+) <", args) if re.match(r"(b|b\..+|cbn?z|tbn?z)$", op) else None
    if target and int(target[1], 16) in index:
        yield index[int(target[1], 16)]
    if op not in ("ret", "b", "br") and i + 1 < len(code):
        yield i + 1


def check(code, register):
    """All paths, by states at each instruction."""
    index = {addr: i for i, (addr, _, _) in enumerate(code)}
    work, seen, wrong = [(0, START)], set(), set()
    records = 0
    while work:
        i, state = work.pop()
        if i >= len(code) or (i, state) in seen:
            continue
        seen.add((i, state))
        addr, op, args = code[i]
        kind = classify(op, args)
        records += kind == "record"
        state, fault = step(state, kind, register)
        if fault:
            wrong.add(f"{fault} (at {addr:#x})")
        if op == "ret" and state == RUNG:
            wrong.add("no dsb between register and return")
        work += [(at, state) for at in follow(code, index, i)]
    if not records:
        wrong.add("no store to a record was found")
    return wrong


def is_cqe_load(code, i):
    """The load of a CQE's last byte, whose address was made just before."""
    base = re.fullmatch(r"\[(x\d+)\]", code[i][2].partition(", ")[2])
    return code[i][1] in ("ldarb", "ldaprb") and base and any(
        op == "add" and re.fullmatch(rf"{base[1]}, x\d+, #0x3f", args) for _, op, args in code[max(0, i - 4):i])


def barrier_behind(code, index, i):
    """True if some path from there, where the CQE is valid, comes to a barrier for devices before anything of the CQE is
    loaded; what is on the other paths is not of the CQE."""
    cqe = re.search(r"x\d+, (x\d+), #0x3f", " ".join(args for _, _, args in code[max(0, i - 4):i]))[1]
    work, seen, found = list(follow(code, index, i)), set(), False
    while work:
        at = work.pop()
        if at in seen or is_cqe_load(code, at):
            continue
        seen.add(at)
        _, op, args = code[at]
        if op == "dmb" and args.startswith("oshld"):
            found = True
            continue
        if op.startswith("ldr") and re.search(rf"\[{cqe}[,\]]", args):
            return False
        if not re.match(rf"{cqe}\b", args) or op.startswith(("st", "cb", "cmp")):
            work += follow(code, index, at)
    return found


def check_polls(functions):
    """How many loads of a CQE's last byte there are, and which have no barrier behind them."""
    loads, wrong = 0, set()
    for name, code in functions.items():
        index = {addr: i for i, (addr, _, _) in enumerate(code)}
        for i in range(len(code)):
            if is_cqe_load(code, i):
                loads += 1
                if not barrier_behind(code, index, i):
                    wrong.add(f"{name}: no barrier behind the load of a CQE's last byte (at {code[i][0]:#x})")
    return loads, wrong


def main():
    tree = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "..", ".."))
    if not shutil.which(CC) or not shutil.which(OBJDUMP):
        print(f"skipped: no {CC} (package gcc-aarch64-linux-gnu)")
        return 77
    bad = 0
    for file, name, register in FUNCTIONS:
        wrong = check(disassemble(tree, file)[name], "arm" if name == "ring_cq_arm_ring" else register)
        print(f"{name}: {'; '.join(sorted(wrong)) or 'barriers on every path'}")
        bad += bool(wrong)
    for file in POLLERS:
        loads, wrong = check_polls(disassemble(tree, file))
        print(f"{file}: {'; '.join(sorted(wrong)) or f'a barrier behind {loads} loads of a CQE'}")
        bad += bool(wrong) or not loads
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
