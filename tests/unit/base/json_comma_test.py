#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A program whose locale has a decimal comma gets JSON with points.

usage: json_comma_test.py JSON_COMMA_APP
"""
import json
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
NAME = "comma"
LOCALE = """LC_CTYPE
END LC_CTYPE
LC_NUMERIC
decimal_point ","
thousands_sep ""
grouping -1
END LC_NUMERIC
"""


def make_locale(folder):
    """Of our own, since a system may have none with a comma; why not, or None."""
    source = os.path.join(folder, "source")
    with open(source, "w", encoding="ascii") as f:
        f.write(LOCALE)
    made = subprocess.run(["localedef", "-c", "--no-archive", "-i", source, os.path.join(folder, NAME)],
                          capture_output=True, text=True, check=False)
    if not os.path.exists(os.path.join(folder, NAME, "LC_NUMERIC")):
        return f"localedef makes no locale: {made.stderr.strip()[-200:]}"
    return None


def main():
    with tempfile.TemporaryDirectory() as folder:
        missing = make_locale(folder)
        if missing:
            print(missing)
            return SKIPPED
        env = {**os.environ, "LOCPATH": folder, "LC_ALL": NAME}
        rows = subprocess.run([sys.argv[1]], env=env, capture_output=True, text=True, check=True).stdout.split("\n")
    assert rows[0] == rows[2] == "1,5", rows
    assert json.loads(rows[1]) == [1.5, 0.25, 2.5], rows
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
