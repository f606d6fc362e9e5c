# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The dashboard of Grafana (docs/grafana), and the expressions that it asks Prometheus for."""
import os

HERE = os.path.dirname(os.path.realpath(__file__))
DASHBOARD = os.path.join(HERE, "..", "..", "..", "docs", "grafana", "shift.json")
VARIABLES = {"$__rate_interval": "5m", "$__range": "6h", "$__interval": "1m", "$instance": ".*"}


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def filled(expression, variables):
    """The expression as Prometheus gets it."""
    for name, value in variables.items():
        expression = expression.replace(name, value)
    return expression


def expressions(dashboard, variables=None):
    """(where, expression as Prometheus gets it) of the panels and annotations."""
    out = [(p["title"], t["expr"]) for p in panels(dashboard) for t in p.get("targets", [])]
    out += [("annotation " + a["name"], a["expr"]) for a in dashboard["annotations"]["list"]]
    return [(where, filled(expression, variables or VARIABLES)) for where, expression in out]
