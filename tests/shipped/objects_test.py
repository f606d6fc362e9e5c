#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the installed libraries and programs want of a system: the glibc, the libraries that they name or load, and
what they show to others. A binary is to run on systems that are older, newer and of another distribution than the
build machine. Each rule is first tried on an object that breaks it.

usage: objects_test.py BUILD CC FLOOR HIREDIS      FLOOR: "" is not checked; HIREDIS: the library that was linked
"""
import os
import re
import subprocess
import sys
import tempfile

BUILD, CC, FLOOR, HIREDIS = sys.argv[1:5]

GLIBC = r"libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|librt\.so\.1|libm\.so\.6|ld-linux-.*|libgcc_s\.so\.1"
# File: what it may name besides glibc (DT_NEEDED).
NEEDED = {
    r"shift/libibverbs\.so\.1$": r"libibverbs-distro\.so\.1",
    r"shift/librdmacm\.so\.1$": r"libibverbs\.so\.1|librdmacm-distro\.so\.1",
    r"modules/libshift-redis\.so$": r"",
    r"bin/shiftctl$": r"",
    r"shift-probe$": r"libibverbs\.so\.1|libmlx5\.so\.1",
    r"shift-exporter$": r"libmicrohttpd\.so\.12",
    r"libsimnic\.so$|simnicctl$": r"",
    r"libsdr\.so\.1": r"libibverbs\.so\.1|libmlx5\.so\.1|libisal\.so\.2",
    r"libnccl-net-sdr\.so$": r"libsdr\.so\.1|libibverbs\.so\.1",
    r"sdr_perf$": r"libsdr\.so\.1|libibverbs\.so\.1",
}
# Libraries that a file may load or speak of: each stands in its text.
LOADED = (r"libibverbs(-distro)?\.so(\.1)?|librdmacm(-distro)?\.so(\.1)?|libmlx5\.so(\.1)?|libnl(-route)?-3\.so\.200|"
          r"libcrypto\.so\.(3|4|1\.1)|libssl\.so\.(3|4|1\.1)|liblmdb\.so(\.0(\.0\.0)?)?|"
          r"libshift-redis\.so|libsimnic\.so|libsdr\.so\.1")
# A name that may be missing, as the same library is found by another one.
TOGETHER = [{"libcrypto.so.3", "libcrypto.so.1.1"}, {"libssl.so.3", "libssl.so.1.1"},
            {"liblmdb.so.0", "liblmdb.so.0.0.0"}]


def out(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def number(version):
    return tuple(int(part) for part in version.split("."))


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.*)\]", out("readelf", "-dW", path))


def glibc(path):
    """The newest version of glibc that is asked for, and by what."""
    wanted = re.findall(r" (\w+)@GLIBC_([0-9.]+)", out("readelf", "-W", "--dyn-syms", path))
    return max(((number(version), name) for name, version in wanted), default=((0,), ""))


def texts(path):
    """Strings that are the name of a library as a whole, or end with one as a path."""
    with open(path, "rb") as f:
        found = re.findall(rb"(?:^|[^ -.0-~])(lib[\w+-]+\.so[\w.]*)(?=\0)", f.read())
    return {name.decode() for name in found}


def exported(path):
    lines = out("readelf", "-W", "--dyn-syms", path).splitlines()
    return {line.split()[7].split("@")[0] for line in lines
            if re.search(r"(FUNC|OBJECT) +(GLOBAL|WEAK) +DEFAULT +\d", line)}


def wrong_with(path, name):
    """Sentences."""
    said = []
    version, symbol = glibc(path)
    if FLOOR and version > number(FLOOR):
        said.append(f"{symbol}() needs glibc {'.'.join(map(str, version))}")
    allowed = next((libs for file, libs in NEEDED.items() if re.search(file, name)), None)
    if allowed is None:
        return said + ["is not in the table of this test"]
    for library in needed(path):
        if not re.fullmatch(f"{GLIBC}|{allowed}", library):
            said.append(f"needs {library}")
    own = set(needed(path)) | {os.path.basename(name)}
    loaded = texts(path)
    said += [f"names {library}" for library in sorted(loaded - own)
             if not re.fullmatch(f"{GLIBC}|{LOADED}", library)]
    for names in TOGETHER:
        if loaded & names and names - loaded:
            said.append(f"names {', '.join(loaded & names)}, but not {', '.join(names - loaded)}")
    leaked = {symbol for symbol in exported(path) if re.match(r"redis|sds|hi_|kv_|dict|net[A-Z]|json|pthread_|__isoc23", symbol)}
    said += [f"shows {symbol}()" for symbol in sorted(leaked)]
    if name.endswith("libshift-redis.so") and exported(path) != {"shift_redis_resp"}:
        said.append(f"shows {exported(path)}")
    return said


def self_test(folder):
    """What the rules do not find."""
    def made(name, source, *flags):
        path = os.path.join(folder, name)
        with open(path + ".c", "w") as f:
            f.write(source)
        subprocess.run([CC, "-shared", "-fPIC", "-o", path, path + ".c", "-Wl,--no-as-needed", *flags], check=True)
        return wrong_with(path, "modules/libshift-redis.so")

    show = "__attribute__((visibility(\"default\"))) int shift_redis_resp = 1;\n"
    cases = {
        "needs libisal": made("a", show, "-lisal"),
        "names libhiredis.so.0.14": made("b", show + 'const char *n = "libhiredis.so.0.14";\n'),
        "but not libcrypto.so.1.1": made("c", show + 'const char *n = "libcrypto.so.3";\n'),
        "shows redisFree": made("d", show + "void redisFree(void) { }\n"),
    }
    if FLOOR and number(out("getconf", "GNU_LIBC_VERSION").split()[1]) >= (2, 34):
        source = "#include <pthread.h>\nint f(pthread_t t) { return pthread_join(t, 0); }\n"
        cases["needs glibc 2.34"] = made("e", show + source)
    return [f"not found: {what}" for what, said in cases.items() if not any(what in line for line in said)]


def installed(folder):
    """(path, name) of each ELF file that is installed."""
    subprocess.run(["cmake", "--install", BUILD], check=True, capture_output=True,
                   env={**os.environ, "DESTDIR": folder})
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            if os.path.islink(path):
                continue
            with open(path, "rb") as f:
                if f.read(4) == b"\x7fELF":
                    yield path, os.path.relpath(path, folder)


def main():
    if not HIREDIS.endswith(".a"):
        print(f"skipped: {HIREDIS} is linked, so libshift-redis.so is for this distribution alone")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        wrong = self_test(folder)
    found = set()
    with tempfile.TemporaryDirectory() as folder:
        for path, name in installed(folder):
            found |= {file for file in NEEDED if re.search(file, name)}
            said = wrong_with(path, name)
            wrong += [f"{name}: {line}" for line in said]
            print(f"{name}: glibc {'.'.join(map(str, glibc(path)[0]))}, {' '.join(needed(path))}")
    if os.path.isdir(os.path.join(BUILD, "sdr")):
        wrong += [f"nothing is installed that matches {file}" for file in NEEDED if file not in found]
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
