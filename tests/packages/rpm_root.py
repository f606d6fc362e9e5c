# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A system of its own in a folder, out of nothing but RPMs: this machine's C library, shell and loader in one package,
its libibverbs in another, laid out as on a distribution that has RPM (/usr/lib64). For rpm_test.py."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

TRIPLET = subprocess.run(["cc", "-print-multiarch"], capture_output=True, text=True, check=True).stdout.strip()
HERE = f"/usr/lib/{TRIPLET}"
LIB = "/usr/lib64"
PROGRAMS = ("sh", "sed", "head", "ldconfig")
VERBS = ("ibv_devices", "ibv_rc_pingpong")
SPEC = """Name: {name}
Version: {version}
Release: 1
Summary: {name}
License: none
{more}
%global _build_id_links none
%global debug_package %{{nil}}
%global __os_install_post %{{nil}}
%description
For a test.
%install
cp -a {tree}/. %{{buildroot}}
%files
{files}
"""


class Failed(Exception):
    """A package did something else than it should."""


def run(*argv, status=0, **more):
    """Its output; status: what it must end with, None: anything."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", stdin=subprocess.DEVNULL, **more)
    if status is not None and (done.returncode != 0) != (status != 0):
        raise Failed(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def build(spec, folder):
    """The package that a spec file makes, one."""
    top = tempfile.mkdtemp(dir=folder)
    path = os.path.join(top, "made.spec")
    with open(path, "w", encoding="utf-8") as f:
        f.write(spec)
    run("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {top}", "--define", f"_libdir {LIB}", "--define",
        "_libexecdir /usr/libexec", "--define", "_binary_payload w1.gzdio", path)
    return sorted(glob.glob(os.path.join(top, "RPMS/*/*.rpm")))


def listed(tree):
    """The tree's files as a spec file names them."""
    for top, folders, names in os.walk(tree):
        for name in names + [d for d in folders if os.path.islink(os.path.join(top, d))]:
            yield os.path.join(top, name)[len(tree):]


class Tree:
    """Files of a package to be."""

    def __init__(self, folder):
        self.path = tempfile.mkdtemp(dir=folder)
        os.chmod(self.path, 0o755)

    def at(self, path):
        os.makedirs(os.path.dirname(self.path + path), exist_ok=True)
        return self.path + path

    def copy(self, source, path):
        shutil.copy2(source, self.at(path))

    def link(self, to, path):
        os.symlink(to, self.at(path))

    def write(self, path, text):
        with open(self.at(path), "w", encoding="ascii") as f:
            f.write(text)

    def program(self, source, path, without=r"libibverbs|libmlx5|librdmacm"):
        """A program with the libraries that it needs."""
        self.copy(source, path)
        for library in re.findall(r"(/\S+\.so\S*)", run("ldd", source, status=None)):
            if not re.search(without, library) and not os.path.exists(self.at(f"{LIB}/{os.path.basename(library)}")):
                self.copy(os.path.realpath(library), f"{LIB}/{os.path.basename(library)}")

    def package(self, name, version, folder, more=""):
        files = "\n".join(f'"{path}"' for path in sorted(listed(self.path)))
        return build(SPEC.format(name=name, version=version, tree=self.path, files=files, more=more), folder)[0]


def base(folder):
    """The system: what a program needs to run, ldconfig, and the shell of the scriptlets."""
    tree = Tree(folder)
    for name in PROGRAMS:
        tree.program(os.path.realpath(shutil.which(name)), f"/usr/{'sbin' if name == 'ldconfig' else 'bin'}/{name}")
    for name in ("libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6", "libnl-3.so.200", "libnl-route-3.so.200",
                 "liblmdb.so.0", "libisal.so.2"):
        if not os.path.exists(tree.at(f"{LIB}/{name}")):
            tree.copy(os.path.realpath(f"{HERE}/{name}"), f"{LIB}/{name}")
    for name in ("bin", "sbin", "lib", "lib64"):
        tree.link("usr/" + name, "/" + name)
    # What this machine's loader has for its default folder is lib64, as with a loader of such a distribution.
    tree.link("../lib64", HERE)
    tree.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
    tree.write("/etc/ld.so.conf.d/libc.conf", f"{HERE}\n")
    for name in ("proc", "dev", "run", "tmp", "sys"):
        os.makedirs(tree.at(f"/{name}/.keep"))
        tree.write(f"/{name}/.keep/it", "")
    return tree.package("base", "1", folder, "AutoReq: no\nProvides: /bin/sh, rtld(GNU_HASH)")


def real(library):
    return os.path.realpath(f"{HERE}/{library}")


def libibverbs(folder, version, name=None):
    """This machine's libibverbs and its mlx5, under this version; name: of the library's file."""
    tree = Tree(folder)
    for library in ("libibverbs.so.1", "libmlx5.so.1", "librdmacm.so.1"):
        file = name if name and library == "libibverbs.so.1" else os.path.basename(real(library))
        tree.copy(real(library), f"{LIB}/{file}")
        tree.link(file, f"{LIB}/{library}")
    for path in glob.glob(f"{HERE}/libibverbs/libmlx5-*.so"):
        tree.link("../libmlx5.so.1", f"{LIB}/libibverbs/{os.path.basename(path)}")
    tree.copy("/etc/libibverbs.d/mlx5.driver", "/etc/libibverbs.d/mlx5.driver")
    return tree.package("libibverbs", version, folder)


def development(folder):
    """The link for programs that are to be linked, which some also open."""
    tree = Tree(folder)
    tree.link("libibverbs.so.1", f"{LIB}/libibverbs.so")
    return tree.package("rdma-core-devel", "44.0", folder)


def utilities(folder, opener):
    tree = Tree(folder)
    for name in VERBS:
        tree.program(shutil.which(name), f"/usr/bin/{name}")
    tree.copy(opener, "/usr/bin/opener")
    return tree.package("libibverbs-utils", "44.0", folder, "AutoReq: no")
