# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The plugin of pytest: the fixture simnic_fabric, a fabric of a test's own. pytest loads this where the wheel is installed.

    @pytest.mark.simnic(hosts=3, nics=1)
    def test_it(simnic_fabric):
        simnic_fabric.run("h0", "ibv_devinfo")
"""
import pytest

import simnic


def pytest_configure(config):
    config.addinivalue_line("markers", "simnic(hosts=2, nics=2, ...): what the fixture simnic_fabric makes, as simnic.fabric()")


@pytest.fixture
def simnic_fabric(request):
    """A fabric of two hosts with two NICs each, or as the mark simnic says; removed when the test ends."""
    mark = request.node.get_closest_marker("simnic")
    with simnic.fabric(*(mark.args if mark else ()), **(mark.kwargs if mark else {})) as made:
        yield made
