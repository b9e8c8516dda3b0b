"""One module for each command; each defines ``command``.

`kafka_native.cli.app.COMMANDS` lists them.
"""
