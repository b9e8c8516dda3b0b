"""Groups whose members come, go, crash and freeze under load on a cluster that changes, and a judge
of their logs.

    python -m tests.broker.chaos --seconds 600 --protocol consumer

`run` starts members (`member`, a process each), a load (`load`) and makes faults; `history` reads
the members' logs, `commit_log` the broker's own log of commits; `verify` judges; `figures` sums up.
Members say what they were handed out, the broker says what was committed.
"""
