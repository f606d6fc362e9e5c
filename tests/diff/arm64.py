#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Cross-compiles the engine for arm64 and looks at the instructions: on every path, a barrier
between requests and doorbell record, between record and register, and behind the register.
Usage: arm64.py [TREE]. Ends 0, 1 (a barrier is missing) or 77 (no cross compiler)."""
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
START, WRITTEN, READY, RECORD, GO, RUNG = "start", "written", "ready", "record", "go", "rung"


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
        target = re.search(r"([0-9a-f]+) <", args) if re.match(r"(b|b\..+|cbn?z|tbn?z)$", op) else None
        if target and int(target[1], 16) in index:
            work.append((index[int(target[1], 16)], state))
        if op in ("ret", "b", "br"):
            if op == "ret" and state == RUNG:
                wrong.add("no dsb between register and return")
            continue
        work.append((i + 1, state))
    if not records:
        wrong.add("no store to a record was found")
    return wrong


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
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
