# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Models of a cluster: goodput of a job, load of rails. Programs are one folder up."""
