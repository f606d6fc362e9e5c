#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""make-dist.sh gives the same bytes of the same commit: out of two clones at other paths, by users with another umask,
time zone, language and configuration of git. The archive has the files of the commit, with one owner, mode and time.

usage: dist_test.py ROOT
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = sys.argv[1]
SCRIPT = "scripts/make-dist.sh"
CONFIG = "[tar]\n\tumask = 0077\n[core]\n\tautocrlf = true\n\tattributesFile = {}/attributes\n[tar \"tar.gz\"]\n\tcommand = cat\n"


def git(*argv):
    return subprocess.run(["git", "-C", ROOT, *argv], check=True, capture_output=True, text=True).stdout


def clone(folder, name):
    path = os.path.join(folder, name)
    subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", ROOT, path], check=True, stdin=subprocess.DEVNULL)
    os.mkdir(os.path.join(path, "scripts"))
    shutil.copy(os.path.join(ROOT, SCRIPT), os.path.join(path, SCRIPT))     # the one that is being tried
    return path


def made(tree, umask, **more):
    """The archive's path."""
    out = os.path.join(tree, "elsewhere")
    done = subprocess.run([os.path.join(tree, SCRIPT), out], env={**os.environ, **more}, check=True,
                          preexec_fn=lambda: os.umask(umask), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.split()[0]


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def odd_user(folder):
    """The environment of somebody who has set all that git would heed."""
    home = os.path.join(folder, "home")
    os.mkdir(home)
    with open(os.path.join(home, ".gitconfig"), "w", encoding="ascii") as f:
        f.write(CONFIG.format(home))
    with open(os.path.join(home, "attributes"), "w", encoding="ascii") as f:
        f.write("docs export-ignore\n")
    return {"HOME": home, "TZ": "Asia/Tokyo", "LANG": "C.UTF-8", "GZIP": "", "XDG_CONFIG_HOME": home}


def wrong_with(path):
    """Sentences about what is in the archive."""
    stamp = int(git("log", "-1", "--format=%ct"))
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    top = os.path.basename(path).replace(".tar.gz", "/")
    files = {m.name[len(top):] for m in members if not m.isdir()}
    listed = set(git("ls-tree", "-r", "--name-only", "-z", "HEAD").strip("\0").split("\0"))
    said = [f"in one of archive and commit only: {name}" for name in sorted(files ^ listed)]
    for m in members:
        if (m.uid, m.gid, m.mtime) != (0, 0, stamp) or m.mode not in (0o644, 0o755, 0o777):
            said.append(f"{m.name}: {m.uid}:{m.gid} {m.mode:o} {m.mtime}, the commit's time is {stamp}")
    return said


def main():
    if subprocess.run(["git", "-C", ROOT, "rev-parse", "--verify", "-q", "HEAD"], capture_output=True).returncode:
        print("skipped: this tree is no clone")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        one = made(clone(folder, "a"), 0o022)
        two = made(clone(folder, "a-rather-longer-name"), 0o077, **odd_user(folder))
        wrong = wrong_with(one)
        if digest(one) != digest(two):
            wrong.append(f"{digest(one)} and {digest(two)}: not the same bytes")
        print("\n".join(wrong[:20]) or f"{os.path.basename(one)} {digest(one)}, {os.path.getsize(one)} bytes, twice")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
