# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Random programs whose queue pairs are partly protected, run on stock and on SHIFT with the same faults: bench/bystanders.py."""
