"""One module a command, with the click command as ``command``; `kafka_native.cli.app.COMMANDS` names them."""
