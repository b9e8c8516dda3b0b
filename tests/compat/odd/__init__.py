"""Calls with odd arguments, made with both libraries and compared."""
