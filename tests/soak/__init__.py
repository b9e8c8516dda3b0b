"""Long runs of one process and its clients: resources, scale, overload.

``python -m tests.soak.NAME`` runs a workload and ends with 1 if it broke a rule.
"""
