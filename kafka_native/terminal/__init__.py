"""All printing of the two command lines, `kafka-native` and `python -m kafka_native.spark`.

`lines` prints lines, JSON, questions, logs and errors. `output` prints tables and progress with
rich. Both escape all text, so that names and texts from the network can't control the terminal.
Other modules of the command lines don't print.
"""
