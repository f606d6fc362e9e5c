# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What tests, benchmarks and the demo share: fabrics and programs (lab), stock perftest through a fault
(perftest), jobs of two ranks (jobs, openmpi, ranks/), random faults (fault_script), random programs of which
only a part is protected (bystanders/), a redis-server (redis), and files of results (results).

A folder whose programs use the package has a link to it, so that `import shiftlab` works however they are
started: by hand, by make and by ctest."""
