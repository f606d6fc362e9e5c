#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Removes one store or barrier of the engine's doorbell code at a time, from a copy of its source,
and runs what must notice: engine_diff --trace on x86-64, or arm64.py on cross-compiled code.
Usage: mutants.py BUILD. Ends 0 if all were noticed.
mutants.py --apply: only sees whether each edit still finds its place, which takes no time."""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ARM64 = os.path.join(HERE, "arm64.py")

# what, file, text, instead, occurrence, configuration of engine_diff or None for arm64.py
MUTANTS = (
    ("send record", "doorbell.h", "	ring_store_record(&c->dbrec[MLX5_SND_DBR]", "	(void)(c->dbrec", 0, 0),
    ("8-byte doorbell", "doorbell.h", "		ring_store64(bf->reg + bf->offset, v);", "		(void)v;", 0, 4),
    ("last 16 bytes of a copy", "doorbell.h", "	ring_store_pair(reg + 48, src + 48);", "", 0, 0),
    ("flush of the register", "doorbell.h", "	ring_wc_end();\n	bf->offset", "	bf->offset", 0, 0),
    ("other half of the register", "doorbell.h", "	bf->offset ^= bf->size;", "", 0, 0),
    ("receive record", "rq.c", "		ring_store_record(&c->dbrec[MLX5_RCV_DBR], c->rq.head & 0xffff);", "", 0, 0),
    ("consumer index", "cq.c", "	ring_store_record(&ring->dbrec[RING_CQ_SET_CI], ring->ci & 0xffffff);", "", 0, 0),
    ("arm record", "cq.c", "	__atomic_store_n(&ring->dbrec[RING_CQ_ARM],", "	(void)(", 0, 0),
    ("arm register", "cq.c", "	ring_store64(ring->uar + MLX5_CQ_DOORBELL,", "	(void)(", 0, 0),
    ("arm barrier", "cq.c", "	ring_wc_start_unlocked();", "", 0, 0),
    ("arm flush", "cq.c", "	atomic_fetch_sub_explicit(&cq->armings[kind].count, RING_ARMER, memory_order_release);", "", 0, 0),
    ("arm64: barrier before the send record", "doorbell.h", "	ring_to_device_barrier();\n	ring_store_record(", "	ring_store_record(", 0, None),
    ("arm64: barrier before the register", "doorbell.h", "	ring_wc_start();\n	if (nreq", "	if (nreq", 0, None),
    ("arm64: flush", "doorbell.h", "	ring_wc_end();\n	bf->offset", "	bf->offset", 0, None),
    ("arm64: barrier before the receive record", "rq.c", "		ring_to_device_barrier();", "", 1, None),
    ("arm64: arm barrier", "cq.c", "	ring_wc_start_unlocked();", "", 0, None),
    ("arm64: arm flush", "cq.c", "	ring_wc_end();", "", 0, None),
)


def edit(tree, file, text, instead, occurrence):
    path = os.path.join(tree, "providers", "mlx5", file)
    with open(path, encoding="utf-8") as f:
        source = f.read()
    parts = source.split(text)
    # a comment between the lines does not matter to the compiler, but it does to this
    if len(parts) < occurrence + 2:
        raise SystemExit(f"mutants.py: {file} has no {text!r}: bring the list up to date")
    source = text.join(parts[:occurrence + 1]) + instead + text.join(parts[occurrence + 1:])
    with open(path, "w", encoding="utf-8") as f:
        f.write(source)


def run(argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, **more)


def engine(tree, build, out):
    """engine_diff with the edited files in front of the library's."""
    sources = [os.path.join(tree, "providers", "mlx5", f) for f in ("sq.c", "rq.c", "cq.c", "wr.c")]
    tests = [os.path.join(HERE, f) for f in sorted(os.listdir(HERE)) if f.endswith(".c")]
    flags = shlex.split("-O2 -std=gnu11 -w -D_GNU_SOURCE -DRING_STORE_TRACE -fno-strict-aliasing")
    done = run(["gcc", *flags, "-I", tree, *sources, *tests, "-o", os.path.join(out, "bin", "engine_diff"),
                os.path.join(build, "providers", "mlx5", "libprovider_mlx5_traced.a"),
                "-lmlx5", "-libverbs", "-ldl", "-lpthread"])
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])


def judge(build, mutant):
    what, file, text, instead, occurrence, config = mutant
    with tempfile.TemporaryDirectory() as tree:
        copy(tree)
        edit(tree, file, text, instead, occurrence)
        if config is None:
            done = run([sys.executable, ARM64, tree])
        else:
            out = os.path.join(tree, "out")
            os.makedirs(os.path.join(out, "bin"))
            os.symlink(os.path.join(build, "out", "lib"), os.path.join(out, "lib"))
            for program in os.listdir(os.path.join(build, "out", "bin")):
                if program != "engine_diff":
                    os.symlink(os.path.join(build, "out", "bin", program),
                               os.path.join(out, "bin", program))
            engine(tree, build, out)
            done = run([os.path.join(HERE, "run.sh"), out, "--trace", "--cases", "800", "--seed",
                        "1", "--config", str(config)])
    caught = done.returncode == 1
    first = (done.stderr.strip() or done.stdout.strip()).split("\n")[0]
    print(f"{'ok  ' if caught else 'FAIL'} without {what}: {first if caught else 'NOT noticed'}", flush=True)
    return caught


def copy(tree):
    for sub in ("providers", "tests/diff"):
        shutil.copytree(os.path.join(ROOT, sub), os.path.join(tree, sub))


def apply_all():
    for mutant in MUTANTS:
        with tempfile.TemporaryDirectory() as tree:
            copy(tree)
            edit(tree, *mutant[1:5])
    print(f"all {len(MUTANTS)} edits apply")
    return 0


def main():
    if sys.argv[1:] == ["--apply"]:
        return apply_all()
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "build")
    results = [judge(build, mutant) for mutant in MUTANTS]
    print(f"{sum(results)} of {len(results)} were noticed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
