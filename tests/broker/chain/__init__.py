"""A chain of consumers and producers: three groups copy from topic to topic in transactions, while
their members join, leave and crash.

Each round has other topics and another assignor. At its end each topic has each message once, in
the order of the first one. `python -m tests.broker.chain` makes a long run.
"""
