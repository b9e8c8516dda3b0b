"""Calls with odd arguments, made with both libraries and compared.

`allowed` has the differences that stay, with their reasons.
``python -m tests.compat.odd.compare PATTERN`` makes the calls whose ids match.
"""
