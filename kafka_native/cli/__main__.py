"""Runs the command line as ``python -m kafka_native.cli``."""

from kafka_native.cli import main

main()
