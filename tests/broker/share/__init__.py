"""A share group whose members are killed, frozen and cut off on a changing cluster, and its rules.

    python -m tests.broker.share --seconds 600

`run` starts members (`member`, one process each) and a load, and makes faults. The members log each
delivery, and the broker's answer to each acknowledgement. `verify` checks the rules.
"""
