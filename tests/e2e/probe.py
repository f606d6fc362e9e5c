#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""shiftctl probe-hw on software NICs: all that SHIFT assumes holds there, on both link layers and alone.

And each check that a fault or a quirk of a NIC can break says so then: a check that cannot fail is none.
"""
import argparse
import json
import os
import signal
import socket
import sys

from shiftlab.lab import Lab, Shift, draw, free_port, run_case, wait_for

LINK = ("cut-psn", "port-event", "loopback-down", "ud-survives")
UC = ("uc-order", "uc-dup", "uc-dry", "uc-key", "uc-rate")
WINDOWS = ("window-all-qps", "unbind-late", "bind-cost")
LISTS = ("null-key", "umr-offset")
TEXTS = ("name", "assumption", "otherwise", "verdict", "reason")


def require(truth, what):
    if not truth:
        raise RuntimeError(what)


def shiftctl(lab, *args):
    return [os.path.join(lab.out, "bin", "shiftctl"), *args]


def link_commands(lab, nic, down="port-down"):
    ctl = f"SIMNIC_FABRIC={lab.fabric} {lab.out}/bin/simnicctl"
    return ["--link-down-command", f"{ctl} fault {down} {nic}",
            "--link-up-command", f"{ctl} heal {nic}"]


def all_checks(lab):
    done = lab.run("h0", shiftctl(lab, "probe-hw", "--list"))
    require(done.process.returncode == 0, "--list fails")
    rows = done.out().splitlines()
    names = [r.split()[0] for r in rows if not r.startswith(" ")]
    require(len(names) == len(rows) / 2 and len(set(names)) == len(names), f"--list says {rows}")
    return names


def validate(report):
    """What docs/man/shiftctl.1 says of the report; by name."""
    require(report["format"] == 1 and report["mode"] in ("two hosts", "loopback"), "format, mode")
    for host in (report["client"], report["server"]):
        require(all(host[m] for m in ("probe", "firmware", "device", "kernel", "rdma_core", "link_layer",
                                      "mtu")), f"of a host: {host}")
    for check in report["checks"]:
        require(all(isinstance(check[m], str) for m in TEXTS), f"members of {check}")
        require(check["verdict"] in ("holds", "fails", "cannot tell"), f"verdict of {check}")
        require(bool(check["reason"]) == (check["verdict"] != "holds"), f"reason of {check}")
        require(check["evidence"] or check["verdict"] != "holds", f"no evidence: {check}")
        require(check["seconds"] >= 0 and check["assumption"].endswith("."), f"{check}")
    verdicts = [c["verdict"] for c in report["checks"]]
    require(report["summary"] == {"holds": verdicts.count("holds"), "fails": verdicts.count("fails"),
                                  "cannot_tell": verdicts.count("cannot tell")}, "summary")
    require(report["seconds"] > 0 and isinstance(report["differences"], list), "seconds, differences")
    return {c["name"]: c for c in report["checks"]}


def probe(lab, *args, listen=(), status=0):
    """Two hosts: the report of h1, whose peer is h0."""
    port = free_port()
    server = lab.start("h0", shiftctl(lab, "probe-hw", "--listen", "-d", "mlx5_0", "-p", port, *listen))
    server.await_listening()
    client = lab.run("h1", shiftctl(lab, "probe-hw", "127.0.0.1", "-d", "mlx5_0", "-p", port, "--json",
                                    *args), timeout=120)
    server.wait(30)
    require(server.process.returncode == 0, f"the server ended with {server.process.returncode}")
    require(client.process.returncode == status,
            f"the client ended with {client.process.returncode}, not {status}")
    return json.loads(client.out())


def expect(checks, **other):
    """All hold, but those that are named otherwise."""
    for name, check in checks.items():
        wanted = other.get(name.replace("-", "_"), "holds")
        require(check["verdict"] == wanted,
                f"{name}: {check['verdict']} ({check['reason']}), not {wanted}; {check['evidence']}")


def ethernet(lab):
    for nic in ("h0/mlx5_0", "h1/mlx5_0"):
        lab.ctl("netdev", nic, "lo")
    names = all_checks(lab)
    report = probe(lab, *link_commands(lab, "h1/mlx5_0"))
    checks = validate(report)
    require(list(checks) == names, f"not all of {names}")
    expect(checks, pkey_drops="cannot tell")
    require(report["mode"] == "two hosts" and not report["differences"], "mode, differences")
    require(report["client"]["link_layer"] == "RoCE v2", "RoCE v2 is the default")
    require(lab.nic(1)["port_up"], "the link is left down")


def infiniband(lab):
    lab.ctl("pkeys", "h1/mlx5_0", 0xffff, 0x7001, 0x8001)
    checks = validate(probe(lab, *link_commands(lab, "h1/mlx5_0")))
    expect(checks, netdev="cannot tell")
    require("InfiniBand" in checks["netdev"]["reason"], "the reason of netdev")


def alone(lab):
    """On one host, by its loopback; with the table."""
    lab.ctl("netdev", "h0/mlx5_0", "lo")
    done = lab.run("h0", shiftctl(lab, "probe-hw", "-d", "mlx5_0"), timeout=120)
    rows = {r.split()[0]: r for r in done.out().splitlines() if r and not r.startswith(" ")}
    failed = [r for r in rows.values() if "FAILS" in r]
    require(done.process.returncode == 0, f"it ended with {done.process.returncode}: {failed}")
    for name in all_checks(lab):
        wanted = "cannot tell" if name in (*LINK, "pkey-drops") else "holds"
        require(wanted in rows[name], f"not {wanted}: {rows[name]}")
    require(done.out().count("skipped: ") == len(LINK), "skipped checks without a reason")
    require(" 0 fail" in done.out() and done.out().rstrip().endswith(" s"), "the last line")


def late(lab):
    """WRITEs that arrive when their queue pair has ended."""
    lab.fault("hold-requests", "h1/mlx5_0", at_message=20, lasts=0.1)
    checks = validate(probe(lab, "--check", "late-write"))
    expect(checks)
    require(lab.nic(0)["late"] > 0, "nothing was late")


def posted(lab):
    """Payload that comes behind its completion, as to a GPU: a READ of the same NIC pushes it."""
    lab.ctl("posted-writes", "h0/mlx5_0", 50000)
    checks = validate(probe(lab, "--check", "write-send", "--check", "self-read", status=1))
    expect(checks, write_send="fails")


def posted_uc(lab):
    """The same of a packet of UC: its completion says nothing of its bytes."""
    lab.ctl("posted-writes", "h1/mlx5_0", 50000)
    checks = validate(probe(lab, "--check", "uc-order", status=1))
    expect(checks, uc_order="fails")
    evidence = checks["uc-order"]["evidence"]
    require(evidence["without_payload"] > 0 and evidence["behind"] == 4, f"{evidence}")


def loopback_lost(lab):
    lab.fault("lose-loopback", "h1/mlx5_0")
    lab.fault("lose-loopback", "h0/mlx5_0")
    checks = validate(probe(lab, "--check", "self-read", "--check", "srq-taker", status=1))
    expect(checks, self_read="fails", srq_taker="fails")


def no_interface(lab):
    lab.ctl("netdev", "h1/mlx5_0", "none")
    expect(validate(probe(lab, "--check", "netdev", status=1)), netdev="fails")


def no_master(lab):
    path = f"/dev/shm/simnic-{lab.fabric}/h1/sys/class/infiniband/mlx5_0/device/config"
    with open(path, "r+b") as f:
        f.seek(4)
        f.write(b"\x02")
    expect(validate(probe(lab, "--check", "bus-master", status=1)), bus_master="fails")
    os.unlink(path)
    expect(validate(probe(lab, "--check", "bus-master", status=1)), bus_master="fails")


def differ(lab):
    """Hosts that are not alike, said in the table and in the report."""
    lab.ctl("mtu", "h0/mlx5_0", 1024)
    report = probe(lab, "--check", "cqe-order")
    validate(report)
    require(report["differences"] == ["mtu"] and report["server"]["mtu"] == 1024, "differences")
    port = free_port()
    server = lab.start("h0", shiftctl(lab, "probe-hw", "--listen", "-d", "mlx5_0", "-p", port))
    server.await_listening()
    done = lab.run("h1", shiftctl(lab, "probe-hw", "127.0.0.1", "-d", "mlx5_0", "-p", port, "--check",
                                  "cqe-order"))
    require("THE HOSTS DIFFER in: mtu" in done.out(), "the table does not say that hosts differ")


def with_shift(lab):
    """Under SHIFT it is the NIC that is tried: SHIFT is turned off, and says nothing."""
    done = lab.run("h0", shiftctl(lab, "probe-hw", "-d", "mlx5_0", "--json", "--check", "withheld"),
                   shift=Shift(log="info"), name="under", timeout=60)
    expect(validate(json.loads(done.out())))
    direct = lab.run("h0", [os.path.join(lab.out, "bin", "shift-probe"), "-d", "mlx5_0", "--json",
                            "--check", "withheld"], shift=Shift(log="info"), name="direct", timeout=60)
    expect(validate(json.loads(direct.out())))
    for program in (done, direct):
        require("driven" not in lab.shift_log(program) and "protected" not in lab.shift_log(program),
                "SHIFT had a hand in it:\n" + lab.shift_log(program))


def says(lab, host, args, status, *words, env=None):
    done = lab.run(host, shiftctl(lab, "probe-hw", *args), timeout=60, env=env)
    rows = [r for r in done.err().splitlines() if r.startswith("shift-probe: ")]
    require(done.process.returncode == status, f"{args}: it ended with {done.process.returncode}")
    require(len(rows) == 1 and all(w in rows[0] for w in words), f"{args}: it says {done.err()!r}")


def mistakes(lab):
    """Each costs one clear line."""
    says(lab, "h0", ["-d", "mlx5_7"], 3, "mlx5_7", "mlx5_0 mlx5_1")
    says(lab, "h0", [], 3, "-d", "mlx5_0 mlx5_1")
    says(lab, "h0", ["-d", "mlx5_0", "-x", 9], 3, "GID index 9", "empty")
    says(lab, "h0", ["-d", "mlx5_0", "--check", "nonsense"], 2, "--list")
    says(lab, "h0", ["--nonsense"], 2, "--help")
    says(lab, "h0", ["-x", "one"], 2, "number")
    says(lab, "h0", ["a", "b"], 2, "one HOST")
    says(lab, "h0", ["--listen", "--json"], 2, "--listen")
    says(lab, "h0", ["--by-hand", *link_commands(lab, "h0/mlx5_0")], 2, "not both")
    says(lab, "h0", ["127.0.0.1", "-d", "mlx5_0", "-p", free_port()], 3, "nobody listens", "--listen")
    with socket.socket() as s:
        s.bind(("0.0.0.0", 0))
        s.listen()
        says(lab, "h0", ["--listen", "-d", "mlx5_0", "-p", s.getsockname()[1]], 3, "in use", "-p")
    says(lab, "h0", ["-d", "mlx5_0"], 3, "2 MiB", "ulimit -l", env={"SIMNIC_MEMLOCK": "1000000"})
    lab.fault("port-down", "h0/mlx5_1")
    says(lab, "h0", ["-d", "mlx5_1"], 3, "mlx5_1 is down")
    lab.ctl("gids", "h1/mlx5_1", "v1")
    says(lab, "h1", ["-d", "mlx5_1"], 3, "RoCE v2", "-x")
    done = lab.run("h0", shiftctl(lab, "probe-hw", "--help"))
    require(done.process.returncode == 0 and "--link-down-command" in done.out(), "--help")


def refuse(lab, server_args, client_args, *words):
    port = free_port()
    server = lab.start("h0", shiftctl(lab, "probe-hw", "--listen", "-p", port, *server_args))
    server.await_listening()
    says(lab, "h1", ["127.0.0.1", "-p", port, *client_args], 3, *words)
    server.wait(30)


def strangers(lab):
    """Ports that cannot be connected: GIDs of two types, two link layers; a peer that is something else."""
    lab.ctl("gids", "h0/mlx5_0", "both")
    index = next(i for i in range(3) if i != lab.nic(0)["gid_index"])
    refuse(lab, ["-d", "mlx5_0", "-x", index], ["-d", "mlx5_0"], "RoCE v2", "RoCE v1", "-x")
    with Lab(os.path.dirname(lab.out), link="ib") as other:
        port = free_port()
        server = other.start("h0", shiftctl(lab, "probe-hw", "--listen", "-d", "mlx5_0", "-p", port))
        server.await_listening()
        says(lab, "h1", ["127.0.0.1", "-p", port, "-d", "mlx5_0"], 3, "link layer", "Ethernet",
             "InfiniBand")
        server.wait(30)
    impostor(lab, b"220 mail.example.org\n", "no shift-probe")
    impostor(lab, b'{"protocol": 99, "ethernet": true, "gid_type": "RoCE v2"}\n', "another version")
    impostor(lab, b"", "closed the connection")


def impostor(lab, answer, words):
    """A server that is no shift-probe, or one of another version."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        client = lab.start("h1", shiftctl(lab, "probe-hw", "127.0.0.1", "-p", s.getsockname()[1], "-d",
                                          "mlx5_0"))
        s.settimeout(60)
        talk, _ = s.accept()
        talk.recv(4096)
        talk.sendall(answer)
        talk.shutdown(socket.SHUT_WR)
        client.wait(30)
        talk.close()
    require(client.process.returncode == 3 and words in client.err(), client.err())


def peer_dies(lab):
    """In the middle: what it had to say of the rest cannot be told, and the report comes all the same."""
    port = free_port()
    server = lab.start("h0", shiftctl(lab, "probe-hw", "--listen", "-d", "mlx5_0", "-p", port))
    server.await_listening()
    client = lab.start("h1", shiftctl(lab, "probe-hw", "127.0.0.1", "-d", "mlx5_0", "-p", port, "--json"))
    wait_for("the first checks", lambda: "cqe-order" in client.err(), 60)
    server.end()
    client.wait(120)
    checks = validate(json.loads(client.out()))
    require(checks["nop-order"]["verdict"] == "holds", "what was done before")
    last = checks["srq-last"]
    require(last["verdict"] == "cannot tell" and "peer is gone" in last["reason"], f"{last}")


# What a NIC may have, and the check that must notice.
QUIRKS = {
    "nop-early": "nop-order",
    "fence-ignored": "fence",
    "wrong-index": "cqe-order",
    "runs-ahead": "withheld",
    "blueflame-torn": "blueflame",
    "compressed": "cqe-format",
    "scatter-silent": "scatter",
    "atomics-swapped": "atomics",
    "unsignaled-unflushed": "flush-sends verbs-flush verbs-post-err",
    "receives-unflushed": "flush-recvs",
    "late-unflushed": "flush-late verbs-post-err",
    "error-names-last": "error-index",
    "gives-up-early": "retry-time",
    "late-writes-land": "late-write",
    "stale-psn": "err-psn",
    "data-behind-log": "log-order",
    "reset-completes": "reset-reuse",
    "no-last-wqe": "srq-last verbs-srq-last",
    "qpn-again": "qpn-reuse",
    "no-port-event": "port-event",
    "loopback-inside": "loopback-down",
    "ud-dies": "ud-survives",
    "uc-in-order": "uc-order",
    "uc-ends": "uc-dup uc-dry uc-key",
    "window-one-qp": "window-all-qps",
    "unbind-ignored": "unbind-late",
    "null-key-refused": "null-key",
    "umr-offset-ignored": "umr-offset",
}

def retries(lab):
    """How long a NIC retries is told, and by how much that is more than SHIFT counts with."""
    for times, verdict in ((4, "holds"), (6, "fails")):
        lab.ctl("retry", "h0/mlx5_0", times)
        lab.ctl("retry", "h1/mlx5_0", times)
        found = validate(probe(lab, "--check", "retry-time", status=verdict == "fails"))["retry-time"]
        require(found["verdict"] == verdict and found["evidence"]["ratio_14_1"] > 0.9 * times, f"{times}: {found}")
    for host in ("h0", "h1"):
        lab.ctl("retry", f"{host}/mlx5_0", 1)


quirks_tried = list(QUIRKS)     # with --few a third of them, drawn


def quirks(lab):
    """A NIC that differs is found out, by the checks for it."""
    for quirk in quirks_tried:
        checks = QUIRKS[quirk]
        for nic in ("h0/mlx5_0", "h1/mlx5_0"):
            lab.ctl("quirk", nic, "none")
            lab.ctl("quirk", nic, quirk)
        wanted = checks.split()
        args = link_commands(lab, "h1/mlx5_0") if checks in LINK else []
        found = validate(probe(lab, *(a for c in wanted for a in ("--check", c)), *args, status=1))
        for check in wanted:
            require(found[check]["verdict"] == "fails", f"{quirk}: {found[check]}")
            print(f"     {quirk}: {found[check]['reason']}")


# What a provider may do, and the check that must notice; see odd/odd_provider.c.
ODD = {
    "acked": "verbs-acked",
    "closed": "verbs-post-err",
    "few": "verbs-send-limit",
    "key": "verbs-empty-write",
    "mixed": "verbs-mixed",
    "state": "verbs-state-word",
    "number": "verbs-extended",
}

odd_tried = list(ODD)


def odd(lab):
    """A provider that differs is found out; the other checks hold."""
    for how in "nothing", *odd_tried:
        check = ODD.get(how)
        # "acked" flushes what has no answer twice, which more than one check minds
        tried = [check] if how == "acked" else sorted(ODD.values())
        found = probe_odd(lab, how, *tried, status=int(bool(check)))
        expect(found, **({check.replace("-", "_"): "fails"} if check else {}))
        if check:
            print(f"     {how}: {found[check]['reason']}")


def probe_odd(lab, how, *checks, status=0):
    args = ["-d", "mlx5_0", "--json", *(a for c in checks for a in ("--check", c))]
    done = lab.run("h0", shiftctl(lab, "probe-hw", *args), timeout=60,
                   env={"LD_PRELOAD": os.path.join(lab.out, "lib", "odd_provider.so"), "ODD": how,
                        "SIMNIC_DEVX": "0" if how == "no-devx" else "1"})
    require(done.process.returncode == status, f"{how}: it ended with {done.process.returncode}")
    return validate(json.loads(done.out()))


def absent(lab):
    """What a NIC lacks is no failure, and is said."""
    for how, checks, words in (("no-uc", UC + WINDOWS + LISTS, "no queue pairs of UC"),
                               ("no-windows", WINDOWS, "no memory windows"),
                               ("vendor", LISTS, "another provider"), ("no-devx", LISTS, "no indirect keys")):
        found = probe_odd(lab, how, *UC, *WINDOWS, *LISTS)
        expect(found, **{c.replace("-", "_"): "cannot tell" for c in checks})
        require(all(words in found[c]["reason"] for c in checks), f"{how}: the reasons of {found}")


def slow(lab):
    """Times and rates that SDR cannot do with."""
    expect(probe_odd(lab, "slow", "uc-rate", status=1), uc_rate="fails")
    expect(probe_odd(lab, "slow-binds", "bind-cost", "window-all-qps", status=1), bind_cost="fails")


def vendor(lab):
    """Another vendor's NIC: what is asked by plain verbs can be told, what is read in rings cannot."""
    lab.ctl("netdev", "h0/mlx5_0", "lo")
    found = probe_odd(lab, "vendor")
    told = {n for n, c in found.items() if c["verdict"] == "holds"}
    plain = {n for n in found if n.startswith("verbs-")} | set(UC) | set(WINDOWS)
    require(len(plain) == 17 and told == plain | {"qpn-reuse", "cmd-cost", "netdev", "bus-master"}, f"{told}")
    require(all("another provider" in c["reason"] or n in LINK for n, c in found.items() if n not in told),
            "the reason")


def scopes(lab):
    """Atomics of two NICs add up only where both are global; one that says so wrongly is found out."""
    nics = ("h1/mlx5_0", "h1/mlx5_1")

    def scope(says, status=0, **other):
        found = validate(probe(lab, "--check", "atomic-scope", status=status))
        expect(found, **other)
        require(found["atomic-scope"]["evidence"]["says"] == says, f"{found}")
        return found["atomic-scope"]["evidence"]["missing_two_nics"]

    require(scope("of one NIC") > 0, "two NICs of a host lost no addition")
    for nic in nics:
        lab.ctl("atomic-scope", nic, "glob")
    require(scope("global") == 0, "global atomics lost additions")
    for nic in nics:
        lab.ctl("atomic-scope", nic, "hca")
        lab.ctl("quirk", nic, "glob-claimed")
    require(scope("global", status=1, atomic_scope="fails") > 0, "no addition was lost")


def cut(lab):
    """A link that goes down in the middle: memory says so, too. And a number that is old is found out."""
    args = ["--check", "cut-psn", *link_commands(lab, "h1/mlx5_0", "cut-message")]
    inside = tried = 0
    while inside < 2 and tried < 8:
        found = validate(probe(lab, *args))
        expect(found)
        inside += found["cut-psn"]["evidence"]["packets_of_the_next"] > 0
        tried += 1
    require(inside, "no WRITE was cut in the middle")
    lab.ctl("quirk", "h0/mlx5_0", "stale-psn")
    expect(validate(probe(lab, *args, status=1)), cut_psn="fails")


def partitions(lab):
    """Of one alone nothing can be told; and a NIC that knows none is found out."""
    checks = validate(probe(lab, "--check", "pkey-drops"))
    require("fewer than two" in checks["pkey-drops"]["reason"], f"{checks}")
    lab.ctl("pkeys", "h1/mlx5_0", 0xffff, 0x8001)
    lab.ctl("quirk", "h1/mlx5_0", "pkey-ignored")
    expect(validate(probe(lab, "--check", "pkey-drops", status=1)), pkey_drops="fails")


def slow_commands(lab):
    lab.ctl("cost", "h1/mlx5_0", 60000)
    checks = validate(probe(lab, "--check", "cmd-cost", "--check", "psn-cost", status=1))
    expect(checks, cmd_cost="fails", psn_cost="fails")


def interrupted(lab):
    """By Ctrl-C with the link down: it comes up again, and what was found is told."""
    down = os.path.join(lab.folder, "down")     # the link is, until a line comes
    os.mkfifo(down)
    commands = link_commands(lab, "h0/mlx5_0")
    commands[1] += f" && read line < {down}"
    client = lab.start("h0", shiftctl(lab, "probe-hw", "-d", "mlx5_0", "--json", "--check", "cqe-order",
                                      "--check", "loopback-down", "--check", "ud-survives", *commands))
    wait_for("the link to go down", lambda: not lab.nic(0)["port_up"], 60)
    os.kill(client.pid, signal.SIGINT)
    with open(down, "w", encoding="ascii") as f:
        f.write("go\n")
    client.wait(60)
    checks = validate(json.loads(client.out()))
    require(checks["cqe-order"]["verdict"] == "holds", f"{checks['cqe-order']}")
    require(lab.nic(0)["port_up"], "the link is left down")


CASES = {
    "ethernet": (ethernet, {}),
    "infiniband": (infiniband, {"link": "ib"}),
    "alone": (alone, {}),
    "late": (late, {}),
    "posted": (posted, {}),
    "posted_uc": (posted_uc, {}),
    "loopback_lost": (loopback_lost, {}),
    "no_interface": (no_interface, {}),
    "no_master": (no_master, {}),
    "retries": (retries, {}),
    "quirks": (quirks, {}),
    "odd": (odd, {}),
    "absent": (absent, {}),
    "slow": (slow, {}),
    "vendor": (vendor, {}),
    "scopes": (scopes, {}),
    "cut": (cut, {}),
    "partitions": (partitions, {"link": "ib"}),
    "slow_commands": (slow_commands, {}),
    "differ": (differ, {}),
    "with_shift": (with_shift, {}),
    "mistakes": (mistakes, {}),
    "strangers": (strangers, {}),
    "peer_dies": (peer_dies, {}),
    "interrupted": (interrupted, {}),
}


# Whose times are what must be noticed: each takes ten seconds.
SLOW = ("slow", "slow_commands")


def few():
    """The cases: a third of what must be noticed, and one of SLOW, drawn."""
    quirks_tried[:] = draw(quirks_tried, len(QUIRKS) // 3)
    odd_tried[:] = draw(odd_tried, len(ODD) // 3)
    left_out = set(SLOW) - set(draw(SLOW, 1))
    return [name for name in CASES if name not in left_out]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--few", action="store_true", help="a third of the quirks, drawn")
    parser.add_argument("cases", nargs="*", choices=[[], *CASES])
    args = parser.parse_args()
    chosen = args.cases or (few() if args.few else list(CASES))
    failed = sum(not run_case(args.build, name, CASES[name][0], **CASES[name][1]) for name in chosen)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["SIMNIC_DEVX"] = "1"     # as kernels grant it: indirect keys are made by it
    sys.exit(main())
