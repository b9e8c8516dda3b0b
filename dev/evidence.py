"""The code that uses the value of each effective property, and a test of its effect.

``tests/tidy/test_config_evidence.py`` compares this table with the code. An alias has the evidence
of its property.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Evidence(NamedTuple):
    """The evidence for one property."""

    acts: tuple[str, ...]
    """The files that use the value.

    An identifier after ``::`` has the value in that file. Without ``::`` the file reads the
    property by its name.
    """
    test: str
    """``file::function``. The test sets the property, and fails if the client ignores it."""


def _at(test: str, *acts: str) -> Evidence:
    return Evidence(acts, test)


_WIRE: Final = "tests/client/test_config_effect_wire.py::"
_TIME: Final = "tests/client/test_config_effect_time.py::"
_SOCKETS: Final = "tests/client/test_config_effect_sockets.py::"
_SASL: Final = "kafka_native/security/sasl.py"
_TLS: Final = "kafka_native/security/tls.py"
_HANDSHAKES: Final = "tests/security/test_tls_properties.py::"
_LOGINS: Final = "tests/client/test_sasl.py::"
_TOKENS: Final = "tests/security/test_oidc.py::"

_COMMON_EVIDENCE: Final = {
    "enable.metrics.push": _at(
        "tests/client/test_telemetry.py::test_nothing_is_sent_if_pushes_are_disabled",
        "kafka_native/client_core.py",
    ),
    "client.id": _at(
        f"{_WIRE}test_client_id_is_in_every_request", "csrc/produce/sender.c::client_id"
    ),
    "topics": _at(
        "tests/client/test_topic_properties.py::test_topics_have_their_own_acks_timeout_and_codec",
        "kafka_native/config.py",
    ),
    "client.software.name": _at(
        f"{_WIRE}test_brokers_get_the_name_and_version_of_the_library",
        "kafka_native/client_core.py",
    ),
    "client.software.version": _at(
        f"{_WIRE}test_brokers_get_the_name_and_version_of_the_library",
        "kafka_native/client_core.py",
    ),
    "message.pinned.max.kbytes": _at(
        "tests/client/test_pinned_memory.py::test_kept_messages_pin_no_more_than_the_limit",
        "kafka_native/_native/engine.pyx::pinned_max_bytes",
    ),
    "metadata.broker.list": _at(f"{_WIRE}test_brokers_to_start_from", "kafka_native/config.py"),
    "message.max.bytes": _at(
        "tests/client/test_producer.py::test_message_over_the_limit_is_refused",
        "csrc/produce/topic.c::message_max_bytes",
        "csrc/produce/accumulator.c::message_max_bytes",
    ),
    "receive.message.max.bytes": _at(
        f"{_WIRE}test_response_over_the_limit_is_not_read",
        "csrc/net/connection.c::receive_max_bytes",
    ),
    "max.in.flight.requests.per.connection": _at(
        f"{_TIME}test_requests_in_flight_are_limited", "csrc/produce/sender.c::max_in_flight"
    ),
    "metadata.recovery.strategy": _at(
        "tests/client/test_scenarios_rebootstrap.py::test_strategy_none_waits_for_the_known_brokers",
        "kafka_native/control/brokers/pool.py::rebootstraps",
    ),
    "metadata.recovery.rebootstrap.trigger.ms": _at(
        "tests/client/test_scenarios_rebootstrap.py::test_missing_metadata_lead_back_to_the_bootstrap_server",
        "kafka_native/control/metadata.py::trigger_s",
    ),
    "topic.metadata.refresh.interval.ms": _at(
        f"{_TIME}test_metadata_is_refreshed_at_the_configured_interval",
        "kafka_native/control/metadata.py::refresh_s",
        "kafka_native/control/group/subscription.py::refresh_s",
    ),
    "metadata.max.age.ms": _at(
        f"{_TIME}test_the_preferred_replica_expires",
        "kafka_native/control/consumer/fetches.py::replica_s",
    ),
    "topic.metadata.refresh.fast.interval.ms": _at(
        f"{_TIME}test_missing_metadata_is_requested_again_at_the_fast_interval",
        "kafka_native/control/metadata.py::fast_s",
    ),
    "topic.metadata.propagation.max.ms": _at(
        "tests/client/test_scenarios_metadata.py::test_missing_topic_fails_after_the_propagation_time",
        "kafka_native/control/metadata.py::propagation_s",
    ),
    "topic.blacklist": _at(
        f"{_WIRE}test_blacklisted_topics_do_not_match",
        "kafka_native/control/group/subscription.py::excluded",
    ),
    "socket.timeout.ms": _at(
        f"{_TIME}test_request_is_repeated_after_its_timeout",
        "kafka_native/control/metadata.py::timeout_s",
        "csrc/consume/fetcher.c::request_timeout_ms",
        "csrc/produce/sender.c::request_timeout_ms",
    ),
    "socket.send.buffer.bytes": _at(
        f"{_SOCKETS}test_buffers_have_the_size", "csrc/net/address.c::send_buffer_bytes"
    ),
    "socket.receive.buffer.bytes": _at(
        f"{_SOCKETS}test_buffers_have_the_size", "csrc/net/address.c::receive_buffer_bytes"
    ),
    "socket.keepalive.enable": _at(
        f"{_SOCKETS}test_option_is_on_or_off", "csrc/net/address.c::keepalive"
    ),
    "socket.nagle.disable": _at(
        f"{_SOCKETS}test_option_is_on_or_off", "csrc/net/address.c::nagle_disable"
    ),
    "broker.address.family": _at(
        "tests/client/test_ipv6.py::test_family_v4_does_not_reach_an_ipv6_server",
        "csrc/net/address.c::address_family",
    ),
    "broker.address.ttl": _at(
        "tests/csrc/test_address.c::test_name_is_resolved_again_when_its_addresses_are_old",
        "csrc/net/address.c::address_ttl_ms",
    ),
    "socket.connection.setup.timeout.ms": _at(
        f"{_TIME}test_connecting_fails_after_its_timeout",
        "csrc/net/connection.c::setup_timeout_ms",
        "csrc/engine/broker_thread.c::setup_timeout_ms",
    ),
    "connections.max.idle.ms": _at(
        f"{_TIME}test_idle_connections_are_closed_after_the_configured_time",
        "csrc/engine/broker_thread.c::connections_max_idle_ms",
    ),
    "reconnect.backoff.ms": _at(
        f"{_TIME}test_reconnecting_waits_for_the_backoff",
        "csrc/engine/broker_thread.c::reconnect_backoff_ms",
    ),
    "reconnect.backoff.max.ms": _at(
        f"{_TIME}test_pauses_between_connections_end_at_the_maximum",
        "csrc/engine/broker_thread.c::reconnect_backoff_max_ms",
    ),
    "ssl.cipher.suites": _at(
        f"{_HANDSHAKES}test_cipher_suites", "kafka_native/security/cipher_suites.py"
    ),
    "ssl.curves.list": _at(f"{_HANDSHAKES}test_curves", _TLS),
    "ssl.sigalgs.list": _at(f"{_HANDSHAKES}test_signature_algorithms", _TLS),
    "ssl.key.location": _at(f"{_HANDSHAKES}test_encrypted_key", _TLS),
    "ssl.key.password": _at(f"{_HANDSHAKES}test_encrypted_key", _TLS),
    "ssl.key.pem": _at(f"{_HANDSHAKES}test_own_certificate_from_texts", _TLS),
    "ssl.certificate.location": _at(f"{_HANDSHAKES}test_encrypted_key", _TLS),
    "ssl.certificate.pem": _at(f"{_HANDSHAKES}test_own_certificate_from_texts", _TLS),
    "ssl.ca.location": _at(
        f"{_HANDSHAKES}test_ca_directory_of_pem_files", "kafka_native/security/authorities.py"
    ),
    "ssl.ca.pem": _at(
        f"{_HANDSHAKES}test_ca_file_and_text_are_both_trusted",
        "kafka_native/security/authorities.py",
    ),
    "ssl.crl.location": _at(f"{_HANDSHAKES}test_revocation_list", _TLS),
    "ssl.crl.check": _at(f"{_HANDSHAKES}test_revoked_intermediate", _TLS),
    "ssl.keystore.location": _at(f"{_HANDSHAKES}test_keystore", _TLS),
    "ssl.keystore.password": _at(f"{_HANDSHAKES}test_keystore", _TLS),
    "enable.ssl.certificate.verification": _at(
        "tests/client/test_tls.py::test_certificate_verification_can_be_disabled",
        _TLS,
    ),
    "ssl.endpoint.identification.algorithm": _at(
        "tests/client/test_tls.py::test_wrong_host_is_accepted_without_identification",
        _TLS,
    ),
    "oauth_cb": _at(f"{_LOGINS}test_tokens_are_renewed_without_poll", _SASL),
    "sasl.oauthbearer.config": _at(f"{_LOGINS}test_unsecured_token", _SASL),
    "enable.sasl.oauthbearer.unsecure.jwt": _at(f"{_LOGINS}test_unsecured_token", _SASL),
    "proxy.url": _at(
        "tests/client/test_proxy.py::test_every_connection_goes_through_the_proxy",
        "kafka_native/security/proxy.py",
    ),
    "sasl.aws.region": _at(f"{_LOGINS}test_aws", _SASL),
    "sasl.oauthbearer.method": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.client.id": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.client.secret": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.scope": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.extensions": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.metadata.authentication.type": _at(
        "tests/security/test_cloud_tokens.py::test_a_producer_authenticates_with_azures_token",
        _SASL,
    ),
    "sasl.oauthbearer.token.endpoint.url": _at(
        f"{_TOKENS}test_client_credentials_with_scope_and_extensions", _SASL
    ),
    "sasl.oauthbearer.sub.claim.name": _at(
        f"{_TOKENS}test_the_subject_may_be_another_claim", _SASL
    ),
    "sasl.oauthbearer.grant.type": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.private.key.passphrase": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.private.key.pem": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.aud": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.exp.seconds": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.iss": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.jti.include": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.nbf.seconds": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.claim.sub": _at(
        f"{_TOKENS}test_an_assertion_is_signed_with_its_claims", _SASL
    ),
    "sasl.oauthbearer.assertion.algorithm": _at(
        f"{_TOKENS}test_a_template_and_a_key_are_read_from_files_each_time", _SASL
    ),
    "sasl.oauthbearer.assertion.private.key.file": _at(
        f"{_TOKENS}test_a_template_and_a_key_are_read_from_files_each_time", _SASL
    ),
    "sasl.oauthbearer.assertion.jwt.template.file": _at(
        f"{_TOKENS}test_a_template_and_a_key_are_read_from_files_each_time", _SASL
    ),
    "sasl.oauthbearer.assertion.file": _at(
        f"{_TOKENS}test_a_ready_assertion_is_sent_unchanged", _SASL
    ),
    "https.ca.location": _at(
        f"{_TOKENS}test_https_is_verified_with_the_configured_authorities", _SASL
    ),
    "https.ca.pem": _at(f"{_TOKENS}test_https_is_verified_with_the_configured_authorities", _SASL),
    "sasl.kerberos.service.name": _at(
        "tests/security/test_gssapi.py::test_service_principal_has_name_and_host", _SASL
    ),
    "sasl.kerberos.principal": _at(
        "tests/security/test_gssapi.py::test_a_keytab_and_a_principal_choose_the_tickets", _SASL
    ),
    "sasl.kerberos.keytab": _at(
        "tests/security/test_gssapi.py::test_a_keytab_and_a_principal_choose_the_tickets", _SASL
    ),
    "sasl.kerberos.kinit.cmd": _at(
        "tests/security/test_gssapi.py::test_kinit_command_is_run_and_repeated",
        _SASL,
    ),
    "sasl.kerberos.min.time.before.relogin": _at(
        "tests/security/test_gssapi.py::test_kinit_command_is_run_and_repeated",
        _SASL,
    ),
    "security.protocol": _at(
        "tests/broker/test_sasl.py::test_no_sasl_on_a_listener_with_it_is_a_clear_error",
        "kafka_native/client_core.py",
    ),
    "sasl.mechanisms": _at(
        "tests/broker/test_sasl.py::test_messages_are_written_and_read_with_each_mechanism", _SASL
    ),
    "sasl.username": _at(
        "tests/broker/test_sasl.py::test_messages_are_written_and_read_with_each_mechanism", _SASL
    ),
    "sasl.password": _at(
        "tests/broker/test_sasl.py::test_wrong_password_is_reported_once_as_in_confluent_kafka",
        _SASL,
    ),
    "sasl.scram.tokenauth": _at(
        "tests/broker/test_sasl.py::test_a_delegation_token_has_the_rights_of_its_owner", _SASL
    ),
    "debug": _at(
        "tests/client/test_logging.py::test_each_context_has_lines_on_its_own_logger",
        "kafka_native/client_core.py",
        "kafka_native/control/settings.py",
    ),
    "log_cb": _at(
        "tests/client/test_logging.py::test_log_cb_gets_name_level_facility_and_text",
        "kafka_native/config.py",
    ),
    "log_level": _at(
        "tests/client/test_logging.py::test_log_level_is_a_syslog_level_and_debug_raises_it",
        "kafka_native/client_core.py",
    ),
    "log.queue": _at(
        "tests/client/test_logging.py::test_with_log_queue_the_applications_poll_calls_the_logger",
        "kafka_native/client_core.py",
    ),
    "log.thread.name": _at(
        "tests/client/test_logging.py::test_log_thread_name_off_leaves_the_thread_out",
        "kafka_native/config.py",
    ),
    "log.connection.close": _at(
        "tests/client/test_logging.py::test_connection_closed_during_a_request_is_a_warning_if_wanted",
        "kafka_native/client_core.py",
    ),
    "error_cb": _at(
        "tests/client/test_error_cb.py::test_refused_broker_is_one_error_for_all_attempts",
        "kafka_native/client_core.py",
    ),
    "statistics.interval.ms": _at(
        "tests/client/test_statistics.py::test_consume_and_flush_call_back_too",
        "kafka_native/control/statistics.py::interval_s",
    ),
    "stats_cb": _at(
        "tests/client/test_statistics.py::test_poll_raises_the_exception_of_stats_cb",
        "kafka_native/control/statistics.py::stats_cb",
    ),
    "background_event_cb": _at(
        "tests/client/test_callback_properties.py::test_events_come_from_a_thread_of_the_client",
        "kafka_native/client_core.py",
    ),
    "throttle_cb": _at(
        "tests/client/test_purge.py::test_throttled_producer_waits_and_calls_back",
        "kafka_native/client_core.py",
    ),
    "api.version.request": _at(
        f"{_WIRE}test_no_api_versions_request_is_sent_if_turned_off",
        "kafka_native/control/brokers/versions.py::ask",
    ),
    "api.version.request.timeout.ms": _at(
        f"{_TIME}test_api_versions_request_is_repeated_after_its_timeout",
        "kafka_native/control/brokers/pool.py::handshake_timeout_s",
    ),
    "api.version.fallback.ms": _at(
        "tests/client/test_old_releases.py::test_closed_connection_is_explained_within_the_fallbacks_time",
        "kafka_native/control/brokers/versions.py::for_s",
    ),
    "broker.version.fallback": _at(
        f"{_WIRE}test_no_api_versions_request_is_sent_if_turned_off",
        "kafka_native/client_core.py",
    ),
    "allow.auto.create.topics": _at(
        f"{_WIRE}test_consumer_creates_topics_only_if_configured",
        "kafka_native/control/consumer/fetches.py::create_topics",
        "kafka_native/control/group/subscription.py::create_topics",
        "kafka_native/client_core.py",
    ),
    "interceptors": _at(
        "tests/client/test_interceptors.py::test_interceptors_are_called_in_order_and_before_the_callbacks",
        "kafka_native/producer.py",
        "kafka_native/consumer.py",
    ),
    "client.rack": _at(
        f"{_WIRE}test_fetch_has_the_configured_value",
        "csrc/consume/fetch_codec.c::rack",
        "kafka_native/control/group/consumer_membership.py::rack",
    ),
    "retry.backoff.ms": _at(
        f"{_TIME}test_retries_wait_for_the_configured_backoff",
        "csrc/produce/sender.c::retry_backoff_ms",
        "kafka_native/control/consumer/consumer_control.py::retry_s",
    ),
    "retry.backoff.max.ms": _at(
        f"{_TIME}test_pauses_between_retries_end_at_the_maximum",
        "csrc/produce/sender.c::retry_backoff_max_ms",
        "kafka_native/control/consumer/consumer_control.py::retry_max_s",
        "kafka_native/control/metadata.py::fast_max_s",
    ),
    "client.dns.lookup": _at(
        f"{_SOCKETS}test_bootstrap_servers_get_canonical_names_if_configured",
        "kafka_native/client_core.py",
    ),
    "test.mock.num.brokers": _at(
        "tests/client/test_config_effect_mock.py::test_client_has_its_own_cluster",
        "kafka_native/client_core.py",
    ),
    "logger": _at(
        "tests/api/test_config.py::test_warnings_go_to_the_users_logger", "kafka_native/config.py"
    ),
    "default.topic.config": _at(
        "tests/api/test_config.py::test_default_topic_config_is_merged_over_the_rest",
        "kafka_native/config.py",
    ),
}

_PRODUCER_EVIDENCE: Final = {
    "enable.idempotence": _at(
        "tests/client/test_config_effect_idempotence.py::test_idempotence_can_be_turned_off",
        "csrc/produce/accumulator.c::idempotence",
        "kafka_native/producer_managers.py::idempotence",
    ),
    "transactional.id": _at(
        "tests/client/test_transactions.py::test_readers_see_exactly_the_committed_transactions",
        "kafka_native/producer_managers.py",
        "kafka_native/control/settings.py",
    ),
    "transaction.timeout.ms": _at(
        "tests/client/test_transactions.py::test_transaction_over_its_timeout_is_aborted",
        "kafka_native/producer_managers.py",
    ),
    "transaction.two.phase.commit.enable": _at(
        "tests/client/test_two_phase.py::test_new_producer_completes_the_transaction_as_decided",
        "kafka_native/producer_managers.py",
    ),
    "enable.gapless.guarantee": _at(
        "tests/client/test_fatal.py::test_gapless_writes_nothing_after_a_failed_message",
        "csrc/produce/sender.c::gapless",
    ),
    "queue.buffering.max.messages": _at(
        "tests/client/test_producer.py::test_full_queue_is_a_buffer_error_until_it_has_room",
        "csrc/engine/engine.c::queue_messages_max",
    ),
    "queue.buffering.max.kbytes": _at(
        "tests/client/test_max_block.py::test_message_larger_than_the_whole_queue_is_not_waited_for",
        "csrc/engine/engine.c::queue_bytes_max",
    ),
    "queue.buffering.max.ms": _at(
        f"{_TIME}test_batch_lingers", "csrc/produce/accumulator.c::linger_us"
    ),
    "message.send.max.retries": _at(
        "tests/client/test_scenarios_backoff.py::test_number_of_tries_ends_at_the_maximum",
        "csrc/produce/sender.c::retries",
    ),
    "queue.buffering.backpressure.threshold": _at(
        "tests/csrc/test_sender.c::test_unsent_requests_are_limited_where_asked",
        "csrc/produce/sender.c::backpressure_requests",
    ),
    "compression.codec": _at(
        "tests/client/test_codecs.py::test_round_trip", "csrc/produce/batch_encoder.c::codec"
    ),
    "compression.level": _at(
        f"{_WIRE}test_compression_level_makes_batches_smaller",
        "csrc/produce/batch_encoder.c::codec_level",
    ),
    "batch.num.messages": _at(
        f"{_WIRE}test_batches_end_at_the_limit", "csrc/produce/accumulator.c::batch_messages"
    ),
    "batch.size": _at(
        f"{_WIRE}test_batches_end_at_the_limit", "csrc/produce/accumulator.c::batch_bytes"
    ),
    "delivery.report.only.error": _at(
        "tests/client/test_producer.py::test_only_errors_are_reported_when_asked",
        "csrc/engine/engine.c::report_errors_only",
    ),
    "sticky.partitioning.linger.ms": _at(
        "tests/client/test_sticky.py::test_sticky_linger_ms_limits_a_partitions_time",
        "csrc/produce/topic.c::sticky_linger_ms",
    ),
    "request.required.acks": _at(
        f"{_WIRE}test_produce_has_acks_and_timeout", "csrc/produce/produce_codec.c::acks"
    ),
    "request.timeout.ms": _at(
        f"{_WIRE}test_produce_has_acks_and_timeout",
        "csrc/produce/sender.c::produce_timeout_ms",
    ),
    "message.timeout.ms": _at(
        "tests/client/test_producer.py::test_message_times_out_with_its_own_error",
        "csrc/produce/accumulator.c::message_timeout_ms",
    ),
    "partitioner": _at(f"{_WIRE}test_partitioner_places_keys", "csrc/produce/topic.c::partitioner"),
    "partitioner_cb": _at(
        "tests/client/test_partitioner_cb.py::test_every_call_passes_key_bytes_and_partition_count",
        "kafka_native/producer.py",
    ),
    "on_delivery": _at(
        "tests/client/test_producer.py::test_callback_of_a_message_replaces_the_callback_of_the_client",
        "kafka_native/producer.py",
    ),
    "max.block.ms": _at(
        "tests/client/test_max_block.py::test_buffer_error_is_raised_after_max_block_ms",
        "kafka_native/_native/producer_core.pyx::block_s",
    ),
    "partitioner.adaptive.partitioning.enable": _at(
        "tests/client/test_sticky.py::test_slow_broker_gets_fewer_messages_if_enabled",
        "csrc/produce/sticky.c::adaptive_partitioning",
    ),
    "partitioner.availability.timeout.ms": _at(
        "tests/client/test_sticky.py::test_silent_broker_gets_no_messages_after_the_timeout",
        "csrc/produce/sticky.c::availability_timeout_ms",
    ),
    "partitioner.rack.aware": _at(
        "tests/client/test_sticky.py::test_rack_aware_producer_stays_in_its_rack",
        "csrc/produce/sticky.c::rack_aware",
    ),
}

_CONSUMER_EVIDENCE: Final = {
    "group.id": _at(
        "tests/client/test_consumer_offsets.py::test_returned_messages_are_committed_automatically",
        "kafka_native/control/consumer/consumer_control.py",
    ),
    "group.instance.id": _at(
        f"{_WIRE}test_join_group_has_the_members_settings",
        "kafka_native/control/consumer/consumer_control.py",
    ),
    "partition.assignment.strategy": _at(
        f"{_WIRE}test_join_group_has_the_members_settings",
        "kafka_native/control/group/classic_membership.py::assignors",
    ),
    "session.timeout.ms": _at(
        f"{_WIRE}test_join_group_has_the_members_settings",
        "kafka_native/control/group/classic_membership.py::session_timeout_s",
    ),
    "heartbeat.interval.ms": _at(
        "tests/client/test_groups_classic_others.py::test_heartbeats_go_on_while_the_interpreter_lock_is_held",
        "kafka_native/control/group/classic_membership.py::heartbeat_interval_s",
    ),
    "group.protocol.type": _at(
        f"{_WIRE}test_join_group_has_the_members_settings",
        "kafka_native/control/group/classic_membership.py::protocol_type",
    ),
    "group.protocol": _at(
        f"{_WIRE}test_member_of_a_consumer_group_names_its_assignor",
        "kafka_native/control/consumer/consumer_control.py",
    ),
    "group.remote.assignor": _at(
        f"{_WIRE}test_member_of_a_consumer_group_names_its_assignor",
        "kafka_native/control/group/consumer_membership.py::assignor",
    ),
    "coordinator.query.interval.ms": _at(
        f"{_TIME}test_coordinator_is_looked_up_at_the_configured_interval",
        "kafka_native/control/brokers/coordinator.py::query_interval_s",
    ),
    "max.poll.interval.ms": _at(
        "tests/client/test_groups_classic.py::test_member_that_does_not_poll_leaves_until_it_polls",
        "kafka_native/control/group/membership.py::rebalance_timeout_s",
    ),
    "enable.auto.commit": _at(
        f"{_WIRE}test_offsets_are_committed_only_if_configured",
        "kafka_native/control/consumer/commits.py::auto_commit",
    ),
    "auto.commit.interval.ms": _at(
        "tests/client/test_consumer_offsets.py::test_returned_messages_are_committed_automatically",
        "kafka_native/control/consumer/commits.py::interval_s",
    ),
    "enable.auto.offset.store": _at(
        "tests/client/test_consumer_offsets.py::test_store_offsets_decides_what_is_committed",
        "kafka_native/control/consumer/commits.py::auto_store",
    ),
    "queued.min.messages": _at(
        "tests/client/test_consumer.py::test_a_full_partition_is_not_fetched_with_the_others",
        "csrc/consume/cursor.c::queued_min_messages",
    ),
    "queued.max.messages.kbytes": _at(
        "tests/client/test_consumer_memory.py::test_resident_memory_stays_near_the_limit_of_the_queue",
        "csrc/consume/fetcher.c::queued_max_bytes",
    ),
    "fetch.wait.max.ms": _at(
        f"{_WIRE}test_fetch_has_the_configured_value", "csrc/consume/fetcher.c::fetch_wait_max_ms"
    ),
    "fetch.message.max.bytes": _at(
        f"{_WIRE}test_fetch_has_the_configured_partition_limit",
        "csrc/consume/fetcher.c::partition_fetch_bytes",
    ),
    "fetch.max.bytes": _at(
        f"{_WIRE}test_fetch_has_the_configured_value", "csrc/consume/fetcher.c::fetch_max_bytes"
    ),
    "fetch.min.bytes": _at(
        f"{_WIRE}test_fetch_has_the_configured_value", "csrc/consume/fetcher.c::fetch_min_bytes"
    ),
    "fetch.error.backoff.ms": _at(
        f"{_TIME}test_partition_is_not_fetched_for_a_time_after_an_error",
        "kafka_native/control/consumer/fetches.py::error_s",
        "csrc/consume/fetcher.c::fetch_error_backoff_ms",
    ),
    "offset.store.method": _at(
        "tests/client/test_offsets.py::test_offsets_in_files_need_no_group",
        "kafka_native/control/consumer/consumer_control.py",
    ),
    "isolation.level": _at(
        f"{_WIRE}test_isolation_level_is_in_the_fetch",
        "csrc/consume/fetch_segment.c::isolation_level",
        "csrc/consume/fetch_codec.c::isolation_level",
        "kafka_native/control/consumer/fetches.py::isolation_level",
    ),
    "enable.partition.eof": _at(
        "tests/client/test_consumer.py::test_end_of_partition_is_reported_once_if_configured",
        "csrc/consume/fetcher.c::partition_eof",
    ),
    "check.crcs": _at(
        f"{_WIRE}test_checksums_are_checked_only_if_configured",
        "csrc/consume/fetch_segment.c::check_crcs",
    ),
    "max.poll.records": _at(
        "tests/client/test_poll.py::test_consume_without_a_number_returns_up_to_max_poll_records_queued_messages",
        "kafka_native/consumer.py",
    ),
    "share.acknowledgement.mode": _at(
        "tests/client/test_share_consumer.py::test_explicit_mode_requires_every_acknowledgement_before_the_next_poll",
        "kafka_native/share_consumer.py",
    ),
    "share.acquire.mode": _at(
        "tests/client/test_share_consumer.py::test_the_acquire_mode_decides_whether_batches_are_whole",
        "kafka_native/control/consumer/share_group.py",
    ),
    "auto.offset.reset": _at(
        "tests/client/test_offsets.py::test_deleted_offset_is_reset",
        "kafka_native/control/consumer/fetches.py::reset",
    ),
    "offset.store.path": _at(
        "tests/client/test_offsets.py::test_offsets_in_files_need_no_group",
        "kafka_native/control/consumer/consumer_control.py",
    ),
    "offset.store.sync.interval.ms": _at(
        f"{_TIME}test_offset_files_are_synced_as_configured",
        "kafka_native/control/consumer/commits.py::sync_interval_s",
    ),
    "consume.callback.max.messages": _at(
        "tests/client/test_poll.py::test_consume_callback_honours_its_property",
        "kafka_native/consumer.py",
    ),
    "consume_cb": _at(
        "tests/compat/test_consumer_side_by_side.py::test_consume_cb_gets_the_messages_of_poll",
        "kafka_native/consumer.py",
    ),
    "offset_commit_cb": _at(
        "tests/compat/test_consumer_side_by_side.py::test_offset_commit_cb_is_on_commit",
        "kafka_native/consumer.py",
    ),
    "rebalance_cb": _at(
        "tests/compat/test_consumer_side_by_side.py::test_rebalance_cb_gets_the_kind_and_the_partitions",
        "kafka_native/consumer.py",
    ),
    "on_commit": _at(
        "tests/client/test_consumer_offsets.py::test_on_commit_gets_the_results_of_asynchronous_commits",
        "kafka_native/consumer.py",
    ),
    "decompressed.batch.max.bytes": _at(
        "tests/client/test_bad_input.py::test_decompression_bomb_stops_its_partition_only_and_a_seek_skips_it",
        "csrc/consume/fetch_segment.c::decompressed_max_bytes",
    ),
}

EVIDENCE: Final[dict[str, Evidence]] = {
    **_COMMON_EVIDENCE,
    **_PRODUCER_EVIDENCE,
    **_CONSUMER_EVIDENCE,
}
"""The evidence by property name."""
