# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The other guest of a case that runs between two: it does what the case asks, by way of the host.

A case has a Peer, whose methods are those of a Servant in the other guest. Host and guests pass the calls on as lines
of JSON; a program there keeps its output there, and both guests' logs come to the same folder.
"""
import os

from shiftlab.guest import rig as guest_rig
from shiftlab.guest.cases import Failed
from shiftlab.guest.inside import OUT
from shiftlab.lab import Stuck


class Peer:
    """The case's end: peer.run("ip", "link") runs in the other guest."""

    def __init__(self, host):
        self.host = host

    def __getattr__(self, name):
        def call(*args, **kw):
            said = self.host.ask(peer={"call": name, "args": [a if isinstance(a, (dict, list)) else str(a) for a in args],
                                       "kw": kw})
            if "error" in said:
                raise Failed(f"the other guest: {said['error']}")
            return said["value"]
        return call


class Servant:
    """
    The other guest's end. rig_of: makes a Rig for a case, by the number of its NIC. Each method is one of Peer's: its
    values are what JSON has.
    """

    def __init__(self, rig_of):
        self.rig_of = rig_of
        self.rig = None
        self.programs = {}

    def begin(self, case, number):
        """For a case and the NIC of that number: the folder of the last one ends."""
        self.end(False)
        self.rig = self.rig_of(case, int(number))

    def end(self, keep_for):
        """Ends what runs. keep_for: the case that failed, whose logs go to the host."""
        if not self.rig:
            return
        self.rig.end()
        if keep_for:
            self.rig.keep(os.path.join(OUT, keep_for, "peer"))
        self.rig, self.programs = None, {}

    def run(self, *argv, fine=True, timeout=30):
        return guest_rig.run(*argv, fine=fine, timeout=timeout)

    def net(self, what, *args):
        """A method of the rig's NIC as a network interface."""
        return getattr(self.rig.net, what)(*args)

    def spare_net(self, what, *args):
        return getattr(self.rig.spare_net, what)(*args)

    def backup_net(self, what, *args):
        return getattr(self.rig.backup_net, what)(*args)

    def start(self, name, argv, shift=None):
        """shift: its settings; None: without SHIFT."""
        settings = self.rig.shift(**shift) if shift is not None else None
        self.programs[name] = self.rig.start(argv, name, settings, True)

    def await_listening(self, name):
        self.rig.await_listening(self.programs[name])

    def await_out(self, name, word):
        self.rig.await_out(self.programs[name], word)

    def say(self, name, word):
        self.programs[name].say(word)

    def out(self, name):
        return self.programs[name].out()

    def tail(self, name):
        return self.programs[name].tail(4)

    def wait(self, name, timeout=50):
        """Its status."""
        return self.programs[name].wait(timeout)

    def connections(self):
        return self.rig.connections()

    def kernel_is_content(self):
        self.rig.kernel_is_content()

    def serve(self, host):
        """Until the host ends this guest."""
        while True:
            asked = host.hear()
            try:
                value = getattr(self, asked["call"])(*asked["args"], **asked["kw"])
                host.tell(answer={"value": value})
            except (Failed, Stuck, OSError, KeyError) as e:
                host.tell(answer={"error": f"{asked['call']}: {e}"})
