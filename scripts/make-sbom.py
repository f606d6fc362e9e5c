#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Makes the bill of materials of a build, in SPDX 2.3: each file that it installs with its sums, what is linked into the
programs and libraries, what these need, and what they load when they need it. All of this is read from the files and from
the commands by which ninja links them. The same build gives the same bytes.

usage: make-sbom.py BUILD FILE
"""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

from shipped import ROOT, installed, is_elf, version

LICENCE = "GPL-2.0-only OR Linux-OpenIB"
SUPPLIER = "Organization: SHIFT maintainers"
# Component: licence, and the sonames or names of archives by which it is recognised.
COMPONENTS = {
    "hiredis": ("BSD-3-Clause", r"libhiredis(_ssl)?\.(a|so.*)"),
    "jansson": ("MIT", r"libjansson\.(a|so.*)"),
    "glibc": ("LGPL-2.1-or-later", r"(libc|libm|libpthread|libdl|librt|ld-linux.*)\.so.*"),
    "gcc": ("GPL-3.0-or-later WITH GCC-exception-3.1", r"libgcc_s\.so.*"),
    "rdma-core": ("GPL-2.0-only OR Linux-OpenIB", r"(libibverbs|librdmacm|libmlx5)(-distro)?\.so.*"),
    "libmicrohttpd": ("LGPL-2.1-or-later", r"libmicrohttpd\.(a|so.*)"),
    "isa-l": ("BSD-3-Clause", r"libisal\.(a|so.*)"),
    "openssl": ("Apache-2.0 OR OpenSSL", r"lib(crypto|ssl)\.so.*"),
    "lmdb": ("OLDAP-2.8", r"liblmdb\.so.*"),
    "libnl": ("LGPL-2.1-only", r"libnl(-route)?-3\.so.*"),
}
OURS = re.compile(r"lib(shift|simnic|sdr)\b")
LINKED, NEEDED, LOADED = "STATIC_LINK", "DYNAMIC_LINK", "RUNTIME_DEPENDENCY_OF"
WHY = {LINKED: "linked in", NEEDED: "needed", LOADED: "loaded when needed"}


def component(library):
    for name, (_, pattern) in COMPONENTS.items():
        if re.fullmatch(pattern, library):
            return name
    sys.exit(f"make-sbom: {library} belongs to no component of COMPONENTS")


def command_output(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def sources(build):
    """{name of an installed file: path of the file that ninja makes}"""
    found = {}
    for top, _, names in os.walk(build):
        if "cmake_install.cmake" in names:
            with open(os.path.join(top, "cmake_install.cmake"), encoding="utf-8") as f:
                for paths in re.findall(r'file\(INSTALL [^\n]* FILES((?:\s+"[^"]*")+)', f.read()):
                    found.update({os.path.basename(path): path for path in re.findall(r'"([^"]*)"', paths)
                                  if path.startswith(os.path.abspath(build) + "/")})
    return found


def archives(build, path):
    """The archives of others that are linked into a file."""
    last = command_output("ninja", "-C", build, "-t", "commands", "-s", os.path.relpath(path, build)).strip().splitlines()[-1]
    return sorted({word for word in re.findall(r"\s(/\S+\.a)(?=\s|$)", last) if not word.startswith(os.path.abspath(build))})


def parts(path, made, build):
    """{(component, relation): names of libraries} of a file; made: as ninja makes it."""
    found = {}
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", command_output("readelf", "-dW", path))
    with open(path, "rb") as f:
        texts = {name.decode() for name in re.findall(rb"(?:^|[\0/])(lib[\w+-]+\.so[\w.]*)(?=\0)", f.read())}
    loaded = sorted(texts - set(needed) - {os.path.basename(path)})
    for libraries, relation in ((archives(build, made), LINKED), (needed, NEEDED), (loaded, LOADED)):
        for library in map(os.path.basename, libraries):
            if not OURS.match(library):
                found.setdefault((component(library), relation), []).append(library)
    return found


def package_of(archive):
    """(version, package URL) of the package that has an archive."""
    for argv, kind in ((("dpkg-query", "-S", archive), "deb"),
                       (("rpm", "-qf", "--qf", "%{name} %{version}-%{release}", archive), "rpm")):
        try:
            said = command_output(*argv)
        except (OSError, subprocess.CalledProcessError):
            continue
        if kind == "deb":
            name = said.split(":")[0]
            number = command_output("dpkg-query", "-W", "-f", "${Version}", said.rsplit(":", 1)[0])
        else:
            name, number = said.split()
        return number, f"pkg:{kind}/{distribution()}/{name}@{number.replace('+', '%2B').replace(':', '%3A')}"
    return None, None


def distribution():
    with open("/etc/os-release", encoding="utf-8") as f:
        return re.search(r"^ID=\"?([\w.-]+)", f.read(), re.M).group(1)


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def package(name, number, licence, **more):
    return {"SPDXID": identifier("Package", name), "name": name, **({"versionInfo": number} if number else {}),
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def file_of(path, name):
    with open(path, "rb") as f:
        content = f.read()
    return {"SPDXID": identifier("File", name), "fileName": "./" + name,
            "fileTypes": ["BINARY" if content.startswith((b"\x7fELF", b"!<arch>")) else "TEXT"],
            "checksums": [{"algorithm": kind.upper(), "checksumValue": hashlib.new(kind, content).hexdigest()}
                          for kind in ("sha1", "sha256")],
            "licenseConcluded": LICENCE, "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"}


def relation(a, kind, b, libraries=()):
    said = {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b}
    return {**said, "comment": f"{WHY[kind]}: {', '.join(libraries)}"} if libraries else said


def components(used):
    """Packages of the components that are used; used: {component: paths of archives}."""
    for name in sorted(used):
        licence = COMPONENTS[name][0]
        if not used[name]:
            yield package(name, None, licence, comment="of the system on which it runs, in the version that is installed there")
            continue
        number, url = package_of(sorted(used[name])[0])
        reference = {"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                       "referenceLocator": url}]} if url else {}
        yield package(name, number, licence, **reference)


def contents(build):
    """(files, packages, relations)"""
    us = identifier("Package", "shift-rdma")
    files, relations, used, made = [], [], {}, sources(build)
    with tempfile.TemporaryDirectory() as folder:
        for path, name in installed(build, folder):
            files.append(file_of(path, name))
            relations.append(relation(us, "CONTAINS", files[-1]["SPDXID"]))
            if not is_elf(path):
                continue
            source = made[os.path.basename(name)]
            for (part, kind), libraries in sorted(parts(path, source, build).items()):
                used.setdefault(part, set()).update(archives(build, source) if kind == LINKED else ())
                ends = [files[-1]["SPDXID"], identifier("Package", part)]
                relations.append(relation(ends[0], kind, ends[1], libraries) if kind != LOADED else
                                 relation(ends[1], kind, ends[0], libraries))
    used = {part: {path for path in paths if component(os.path.basename(path)) == part} for part, paths in used.items()}
    code = hashlib.sha1("".join(sorted(f["checksums"][0]["checksumValue"] for f in files)).encode()).hexdigest()
    main = package("shift-rdma", version(), LICENCE, supplier=SUPPLIER, filesAnalyzed=True, licenseInfoFromFiles=["NOASSERTION"],
                   packageVerificationCode={"packageVerificationCodeValue": code})
    return files, [main, *components(used)], relations


def time_of_commit():
    stamp = os.environ.get("SOURCE_DATE_EPOCH")
    if not stamp:
        done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True)
        stamp = done.stdout.strip() or "0"
    return datetime.datetime.fromtimestamp(int(stamp), datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def document(build):
    files, packages, relations = contents(build)
    about = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"shift-rdma-{version()}",
             "creationInfo": {"created": time_of_commit(), "creators": [f"Tool: make-sbom-{version()}", SUPPLIER]},
             "documentDescribes": [packages[0]["SPDXID"]], "packages": packages, "files": files,
             "relationships": [relation("SPDXRef-DOCUMENT", "DESCRIBES", packages[0]["SPDXID"]), *relations]}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    about["documentNamespace"] = f"https://shift-rdma.invalid/spdx/{about['name']}-{digest[:32]}"
    return about


def main():
    build, path = sys.argv[1:3]
    text = json.dumps(document(build), indent=1, sort_keys=True) + "\n"
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip().splitlines()[-1])
    main()
