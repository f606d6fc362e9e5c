# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""`python -m shift COMMAND...` is `shiftctl COMMAND...`."""
from shift._main import shiftctl

if __name__ == "__main__":
    shiftctl()
