#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""All libFuzzer targets for some time, side by side, from the corpus in tests/fuzz/corpus/; prints
how much each did. What one finds is left in the folder that is printed.

--keep: merges what was found new into the corpus, in the fewest files that cover the same.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ("value", "wire", "config")
LONGEST = {"value": 2200, "wire": 4000, "config": 4200}


def start(binary, name, seconds, found, seed):
    corpus = os.path.join(HERE, "corpus", name)
    fresh = os.path.join(found, name)
    os.makedirs(fresh)
    log = open(os.path.join(found, name + ".log"), "w+")
    argv = [binary, f"-max_total_time={seconds}", f"-max_len={LONGEST[name]}", f"-seed={seed}",
            f"-artifact_prefix={found}/{name}-", "-print_final_stats=1", "-timeout=25",
            "-rss_limit_mb=2048", fresh, corpus]
    return subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL), log


def merge(binary, name, found):
    corpus, merged = os.path.join(HERE, "corpus", name), os.path.join(found, name + "-merged")
    os.makedirs(merged)
    subprocess.run([binary, "-merge=1", f"-max_len={LONGEST[name]}", merged, corpus,
                    os.path.join(found, name)], check=True, capture_output=True)
    shutil.rmtree(corpus)
    shutil.move(merged, corpus)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("targets", nargs="*", choices=[[], *TARGETS])
    args = parser.parse_args()
    names = args.targets or TARGETS
    binaries = {n: os.path.join(os.path.abspath(args.build), "out", "bin", "fuzz_" + n)
                for n in names}
    if not shutil.which("clang"):
        print("skipped: libFuzzer comes with clang, which is not installed")
        return 77
    found = tempfile.mkdtemp(prefix="shift-fuzz-")
    running = {n: start(binaries[n], n, args.seconds, found, args.seed) for n in names}
    failed = False
    try:
        for name, (process, log) in running.items():
            process.wait()
            log.seek(0)
            text = log.read()
            runs = re.search(r"number_of_executed_units: (\d+)", text)
            if process.returncode or not runs:
                failed = True
                print(f"fuzz_{name} (seed {args.seed}) found something: see {found}\n{text[-3000:]}")
            else:
                print(f"fuzz_{name}: {int(runs.group(1)):,} executions in {args.seconds} s, "
                      "nothing found", flush=True)
            if args.keep and not process.returncode:
                merge(binaries[name], name, found)
    finally:
        for process, _ in running.values():
            if process.poll() is None:
                process.kill()
                process.wait()
    if not failed:
        shutil.rmtree(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
