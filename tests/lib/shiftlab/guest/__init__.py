# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A guest that QEMU emulates, and a lane of cases that run in guests: what tests/kernel/ and tests/driver/ share."""
