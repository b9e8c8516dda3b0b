"""The matrix of releases: what the client does with real brokers of each release of Apache Kafka.

``make matrix`` runs all of it and writes docs/COMPATIBILITY.md.
"""
