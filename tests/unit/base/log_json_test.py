#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""SHIFT_LOG_FORMAT=json: whatever is logged, each line is an object, and says what was meant.

usage: log_json_test.py LOG_SAY
"""
import datetime
import json
import os
import random
import subprocess
import sys
import time

LINE_MAX = 4096
HOSTILE = [
    b"plain", b"", b'a "quoted" \\ word', b"two\nlines\r\n", b"\x1b[2J\x01\x7f\t", b"\xff\xfe bytes",
    b"cut \xe2\x82", b"\xed\xa0\x80 surrogate", b"\xf0\x9f\x92\xa9 wide", "größe, 尺".encode(),
    b'"}\n{"level": "error"}', b"%s %n %d", b"\xc0\xaf overlong", b"\\u0041",
]


def said(program, level, texts, **env):
    env = dict({k: v for k, v in os.environ.items() if not k.startswith("SHIFT_")},
               SHIFT_CONF="/dev/null/none", **env)
    return subprocess.run([program.encode(), level.encode()] + texts, env=env, check=False,
                          capture_output=True)


def check_line(line, level, text, before):
    assert len(line) < LINE_MAX, len(line)
    line = json.loads(line.decode("utf-8"))     # strictly UTF-8
    assert line["level"] == level and isinstance(line["pid"], int), line
    at = datetime.datetime.fromisoformat(line["time"].replace("Z", "+00:00"))
    assert before - 1 <= at.timestamp() <= time.time() + 1, line
    assert 0 < line["monotonic_ns"] <= time.monotonic_ns(), line
    if text is not None:
        whole = text.decode("utf-8", "replace")
        # what is no UTF-8 may be shown as fewer or more replacements than Python has
        strip = str.maketrans("", "", "\ufffd")
        assert whole.translate(strip).startswith(line["message"].translate(strip)), (line, whole)
        assert len(line["message"]) > 100 or len(line["message"].translate(strip)) == \
            len(whole.translate(strip)), (line, whole)
    return line


def check(program, level, texts):
    before = time.time()
    done = said(program, level, texts, SHIFT_LOG="debug", SHIFT_LOG_FORMAT="json")
    assert done.returncode == 0, done
    lines = done.stderr.split(b"\n")
    assert lines.pop() == b"" and len(lines) == len(texts) + 2, done.stderr
    for line, text in zip(lines, texts):
        check_line(line, level, text, before)
    fields = check_line(lines[-2], level, b"with fields", before)
    assert fields["n"] == 1 and fields["s"] == {"t": None}, fields
    assert set(check_line(lines[-1], level, b"too many fields", before)) == \
        {"time", "monotonic_ns", "level", "pid", "message"}


def main():
    program = sys.argv[1]
    for level in ("error", "warn", "info", "debug"):
        check(program, level, HOSTILE)
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(20):
        check(program, "warn", [bytes(rng.choice(b'\x01"\\\n\xff\xe2\x82\xac ax')
                                      for _ in range(rng.randrange(5000))) for _ in range(10)])
    text = said(program, "warn", [b"plain"])
    assert text.stderr.startswith(b"shift: warn: "), text
    assert b"shift: warn: plain\nshift: warn: with fields\n" in text.stderr, text
    wrong = said(program, "warn", [], SHIFT_LOG_FORMAT="yaml").stderr
    assert b"SHIFT_LOG_FORMAT=yaml is neither text nor json; using text" in wrong, wrong
    print("ok")


if __name__ == "__main__":
    main()
