"""Instructions per operation, counted by callgrind. Other work on the machine doesn't change them.

`cases.py` has the operations, `budget.json` the figures that a change must not exceed.
"""
