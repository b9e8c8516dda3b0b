"""Calls with odd arguments, made with both libraries and compared.

`allowed` has the differences that stay, with their reasons. `open.txt` has the groups of those that
are still to be removed. After a change: ``python -m tests.compat.odd.compare --write-open PATTERN``
makes the calls whose ids match, and writes these groups anew.
"""
