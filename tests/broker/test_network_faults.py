"""A short run of producers whose brokers are in network namespaces. It needs root."""

from __future__ import annotations

from functools import partial

import pytest

from tests.broker.acked.ledger import PERSISTED
from tests.broker.acked.run import Options, Run, acked_rig
from tests.broker.acked.verify import violations
from tests.harness import network
from tests.harness.cluster_run import NAMESPACE_FAULTS, NAMESPACES, Rig, module_rig

three = module_rig(partial(acked_rig, network=NAMESPACES), network.missing)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(600)
def test_faults_of_packets_break_no_rule(three: Rig) -> None:
    options = Options(
        seconds=60.0,
        timeout_s=4.0,
        fault_every_s=(0.5, 2.0),
        network=NAMESPACES,
        faults=("kill", "leaders", *NAMESPACE_FAULTS),
    )
    run = Run(three, options)
    result = run.run()
    print("\n".join([str(options), *run.lines()]))
    assert violations(result) == [], f"the producers' output is in {run.directory}"
    assert run.count(PERSISTED)
    hit = {name.partition("_")[2] for name in run.faults}
    assert hit >= set(NAMESPACE_FAULTS)
