#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every way in which programs load libibverbs, against the drop-in over a shell that counts.

Each hooked verb must have been seen exactly once per call of the application: not missed, and not
counted again when the distribution's library calls itself. Then the same programs against SHIFT
itself, where only their own judgement counts.
"""
import argparse
import os
import sys

from shiftlab.lab import Lab, Shift

# script.c
SCRIPT = {
    "init": 1, "fini": 1, "context_opened": 1, "close_device": 1,
    "query_port_cached": 1, "query_port_note": 1, "alloc_pd": 1, "dealloc_pd": 1,
    "reg_mr": 1, "reg_mr_iova2": 1, "dereg_mr": 2,
    "create_comp_channel": 1, "destroy_comp_channel": 2, "channel_real": 2,
    "create_cq": 1, "create_cq_ex": 1, "destroy_cq": 2,
    "create_qp": 1, "create_qp_ex": 1, "modify_qp": 1, "query_qp": 1, "destroy_qp": 2,
    "async_real_begin": 4, "async_real_end": 4,
}
# direct.c: the CQ and the QP are made past the exported verbs.
DIRECT = {
    "init": 1, "fini": 1, "context_opened": 1, "close_device": 1, "alloc_pd": 1, "dealloc_pd": 1,
    "create_comp_channel": 1, "destroy_comp_channel": 2, "channel_real": 1,
    "destroy_cq": 1, "modify_qp": 2, "destroy_qp": 1, "get_cq_event": 2, "ack_cq_events": 1,
    "async_real_begin": 2, "async_real_end": 2,
}
UNTOUCHED = {}

LINKED = ["loader_linked"]
# NCCL and UCCL: the development name first.
VERSIONS = ["loader_opened", "versions", "libibverbs.so", "libibverbs.so.1"]
PLAIN = ["loader_opened", "plain", "libibverbs.so.1"]
SONAME = ["loader_opened", "versions", "libibverbs.so.1"]
# A wheel that brings a copy under another name, as auditwheel makes it.
BUNDLED = ["loader_bundled"]
COPY = "libib-9f3c.so.1"   # as long as the name that it takes the place of


def cases():
    """name, program, way to load, expected counts, settings."""
    for program, expected in ((LINKED, SCRIPT), (VERSIONS, SCRIPT), (PLAIN, SCRIPT),
                              (SONAME, SCRIPT), (["loader_direct"], DIRECT)):
        for way in ("path", "preload", "both"):
            # By handle, another file's name: what LD_PRELOAD alone cannot catch.
            if program is VERSIONS and way == "preload":
                continue
            yield program, way, expected, {}
            yield program, way, expected, {"SHIFT_TEST_FACADE": "1"}
            yield program, way, UNTOUCHED, {"SHIFT_DISABLE": "1"}
    for way in ("preload", "both"):
        yield BUNDLED, way, SCRIPT, {}
    for program in (["ibv_devices"], ["true"]):
        for way in ("path", "preload"):
            yield program, way, UNTOUCHED, {}


def read_counts(path):
    """The hooks' counts; none if the library never started."""
    try:
        with open(path) as f:
            rows = [line.split() for line in f]
    except FileNotFoundError:
        return {}
    return {name: int(n) for name, n in rows if int(n)}


def bundle(lab):
    """loader_linked, bound to a copy of the distribution's library that lies beside it."""
    library = os.path.realpath(os.path.join(lab.out, "lib", "shift", "libibverbs-distro.so.1"))
    program = os.path.join(lab.out, "bin", LINKED[0])
    for source, target in ((library, COPY), (program, BUNDLED[0])):
        with open(source, "rb") as f:
            text = f.read()
        assert b"libibverbs.so.1\0" in text, f"{source} does not name libibverbs.so.1"
        with open(os.path.join(lab.folder, target), "wb") as f:
            f.write(text.replace(b"libibverbs.so.1\0", COPY.encode() + b"\0"))
    os.chmod(os.path.join(lab.folder, BUNDLED[0]), 0o755)


def programs_path(lab, argv):
    for folder in (os.path.join(lab.out, "bin"), lab.folder):
        local = os.path.join(folder, argv[0])
        if os.path.exists(local):
            return [local] + argv[1:]
    return argv


def bundled_env(lab, argv):
    """Where a bundled copy is found; a wheel has it as a run path."""
    return {"LD_LIBRARY_PATH": lab.folder} if argv is BUNDLED else {}


def exit_text(name, program):
    """What went wrong by the program's own account; None: nothing."""
    status = program.process.returncode
    print(("FAIL " if status else "ok   ") + name, flush=True)
    return f"{name}: exit {status}\n{program.tail()}" if status else None


def run_shift(lab, argv, way):
    program = lab.run("h0", programs_path(lab, argv), shift=Shift(way), env=bundled_env(lab, argv))
    return exit_text(" ".join(["SHIFT:"] + argv + [way]), program)


def run_counted(lab, number, argv, way, expected, settings):
    counts = os.path.join(lab.folder, f"counts-{number}")
    shift = Shift(way, libdir=os.path.join(lab.out, "tests", "passthrough"))
    program = lab.run("h0", programs_path(lab, argv), shift=shift,
                      env={"SHIFT_TEST_COUNTS": counts, **settings, **bundled_env(lab, argv)})
    name = " ".join(argv + [way] + [f"{k}={v}" for k, v in settings.items()])
    failed = exit_text(name, program)
    if failed:
        return failed
    seen = read_counts(counts)
    wrong = [f"{verb}: {seen.get(verb, 0)} instead of {expected.get(verb, 0)}"
             for verb in sorted(set(seen) | set(expected))
             if seen.get(verb, 0) != expected.get(verb, 0)]
    return f"{name}: " + ", ".join(wrong) if wrong else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    with Lab(options.build) as lab:
        bundle(lab)
        results = [run_counted(lab, number, *case) for number, case in enumerate(cases())]
        results += [run_shift(lab, argv, way) for argv, way, _, settings in cases()
                    if not settings]
    failed = [text for text in results if text]
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
