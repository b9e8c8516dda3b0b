"""Groups whose members come, go, crash and freeze under load on a changing cluster, and the rules
for them.

    python -m tests.broker.chaos --seconds 600 --protocol consumer

`run` starts members (`member`, one process each) and a load (`load`), and makes faults. `history`
reads the members' logs, `commit_log` the broker's log of commits. `verify` checks the rules, and
`figures` sums up. The members log the messages that they got, the broker logs the commits.
"""
