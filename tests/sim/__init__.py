"""Runs of whole clients and a mock cluster on a simulated machine: one clock, one seed.

`machine.c` is the machine, `inside/` what runs on it. `python -m tests.sim` runs seeds.
"""
