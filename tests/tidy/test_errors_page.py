"""docs/guide/errors.md: each condition has a code that exists and tests that show it."""

from __future__ import annotations

import re
from pathlib import Path

from kafka_native import KafkaError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guide" / "errors.md").read_text(encoding="utf-8")
LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")
TABLE = PAGE.split("| condition | code |")[1].split("\n\n")[0]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TABLE.splitlines()[2:]]

TESTS = {
    "a connection to a broker fails, or a connection in use ends": [
        "client/test_error_cb.py::test_refused_broker_is_one_error_however_often_it_is_tried",
        "client/test_error_cb.py::test_cause_that_changes_is_news",
    ],
    "an idle connection ends": [
        "client/test_logging.py::test_broker_that_closes_an_idle_connection_is_not_worth_a_word",
    ],
    "the broker closes a connection in use, with `log.connection.close=false`": [
        "client/test_logging.py::test_connection_closed_under_a_request_is_a_warning_unless_unwanted",
    ],
    "every known broker is down": [
        "client/test_error_cb.py::test_each_change_is_told_again",
        "control/test_brokers.py::test_cluster_that_is_down_is_reported_at_once_then_once_a_minute_then_is_back",
    ],
    "a client without SASL connects to a listener for SASL": [
        "client/test_error_cb.py::test_listener_for_sasl_is_one_error_and_not_asked_ever_faster",
    ],
    "a host name doesn't resolve": [
        "client/test_bad_input.py::test_host_that_does_not_resolve_says_so",
    ],
    "a request gets no answer in time": [
        "client/test_error_cb.py::test_request_without_an_answer_is_timed_out",
    ],
    "the peer doesn't speak Kafka's protocol": [
        "client/test_bad_input.py::test_port_that_speaks_http_is_recognised",
        "client/test_bad_input.py::test_port_that_speaks_nonsense_is_an_error_and_no_crash",
    ],
    "a response is larger than `receive.message.max.bytes`": [
        "client/test_bad_input.py::test_frame_over_the_limit_ends_the_connection_and_is_fetched_again",
    ],
    "a broker's certificate isn't accepted, or the TLS handshake fails otherwise": [
        "client/test_tls.py::test_flaws_of_the_certificate_are_named",
        "client/test_tls.py::test_tls_on_a_plaintext_port_and_the_reverse_say_so",
    ],
    "a broker refuses the login, has another mechanism, or no SASL": [
        "broker/test_sasl.py::test_wrong_password_is_told_once_as_confluent_kafka_tells_it",
        "control/test_authentication.py::test_calls_wait_as_with_librdkafka_and_say_why_in_the_end",
    ],
    "a broker is too old for SASL (before 1.0)": [
        "control/test_authentication.py::test_a_broker_before_1_0_is_named_as_such",
    ],
    "the producer can't keep its guarantee": [
        "client/test_fatal.py::test_out_of_order_although_everything_before_was_acknowledged_is_fatal",
        "client/test_fatal.py::test_unknown_producer_of_messages_that_may_have_been_written_is_fatal",
    ],
    "another member fences a static member, or a group is forbidden for good": [
        "client/test_groups_consumer.py::test_fatal_errors_are_fatal",
        "control/test_membership_classic.py::test_fenced_instance_is_fatal",
        "client/test_consumer_groups.py::test_a_fatal_error_refuses_what_changes_something",
    ],
    "no `poll()` within `max.poll.interval.ms`": [
        "client/test_consumer_groups.py::test_who_does_not_poll_is_no_member_until_it_does",
    ],
    "a subscribed or assigned topic doesn't exist": [
        "client/test_consumer_groups.py::test_a_subscription_to_a_topic_that_does_not_exist_is_told_long_before_the_propagation_time",
        "client/test_consumer_groups.py::test_a_topic_that_does_not_exist_is_told_once_and_read_once_it_does",
        "client/test_consumer.py::test_unknown_topic_is_an_error_message_and_others_go_on",
    ],
    "reading a topic isn't allowed": [
        "control/test_membership_consumer.py::test_an_unauthorized_topic_is_reported_now_and_then_and_tried_again",
    ],
    "there is no offset, and `auto.offset.reset=error`": [
        "client/test_consumer.py::test_reset_error_reaches_the_application",
    ],
    "a log was truncated below the position, and there is no reset": [
        "client/test_offsets.py::test_truncated_log_without_a_reset_is_an_error_with_both_offsets",
    ],
    "the end of a partition is reached (`enable.partition.eof`)": [
        "client/test_consumer.py::test_end_of_partition_is_reported_once_where_asked",
    ],
    "a batch is unreadable": [
        "client/test_bad_input.py::test_checksum_mismatch_is_an_error_message_and_the_data_comes_again",
    ],
    "a message isn't delivered within `message.timeout.ms`": [
        "client/test_producer.py::test_message_times_out_with_its_own_error",
    ],
    "the topic of a message doesn't exist": [
        "client/test_producer.py::test_unknown_topic_fails_its_own_messages_only",
    ],
    "a quota throttles the client": [
        "client/test_purge.py::test_throttled_producer_waits_and_tells",
    ],
    "you close a producer whose transaction has to be aborted": [
        "client/test_fenced_close.py::test_close_ends_at_once_and_says_why",
    ],
}
"""The tests of each condition, below tests/."""


def test_each_condition_has_tests_that_exist() -> None:
    assert len(ROWS) >= 15
    assert [LINK.sub("", row[0]) for row in ROWS] == list(TESTS)
    for tests in TESTS.values():
        assert tests
        for path, _, name in (test.partition("::") for test in tests):
            assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), (path, name)


def test_each_condition_has_codes_that_exist_and_a_place() -> None:
    named = set()
    for condition, codes, where in ROWS:
        assert condition
        assert where
        for code in re.findall(r"`(_?[A-Z_]+)`", codes):
            assert hasattr(KafkaError, code), code
            named.add(code)
    assert {
        "_ALL_BROKERS_DOWN",
        "_TRANSPORT",
        "_RESOLVE",
        "_TIMED_OUT",
        "_AUTHENTICATION",
        "_FATAL",
        "_MAX_POLL_EXCEEDED",
        "UNKNOWN_TOPIC_OR_PART",
    } <= named
