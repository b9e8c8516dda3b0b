"""Connections to brokers: the pool, the API versions, security, and coordinators."""
