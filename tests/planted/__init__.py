"""Planted bugs of the client: each must be caught by a rule of a workload on the mock cluster.

`mutants.py` has the bugs of the Python code, `csrc/base/planted.h` names those of the C core.
`workload.py` uses a client as an application does, and prints the rules that it broke.
"""
