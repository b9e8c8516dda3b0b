"""What both command lines print with, `kafka-native` and `python -m kafka_native.spark`.

`lines` prints lines, JSON, questions, logs and errors; `output` prints tables and progress with rich. They escape
whatever they print, so that names and texts from the network can't control the terminal. No other module of the
command lines prints.
"""
