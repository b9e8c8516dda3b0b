"""Connections to brokers: their pool, what they understand, their security, and which of them coordinate."""
