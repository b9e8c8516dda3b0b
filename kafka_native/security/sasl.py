"""Makes a client's SASL mechanism from its properties."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from kafka_native.config import Config
from kafka_native.errors import KafkaError, KafkaException
from kafka_native.security.aws_msk_iam import AwsMskIam, chain
from kafka_native.security.cloud_tokens import aws_iam, aws_remarks, azure_imds, azure_url
from kafka_native.security.gssapi import UNCHOSEN, Gssapi, expanded, words_of
from kafka_native.security.mechanisms import Credentials, Mechanism, SaslError
from kafka_native.security.oauthbearer import OAuthBearer, callback_source, parsed_extensions
from kafka_native.security.oidc import (
    JWT_BEARER,
    Assertion,
    Provider,
    claims_of,
    client_credentials,
    https_context,
    jwt_bearer,
    read,
)
from kafka_native.security.plain import Plain
from kafka_native.security.redaction import Secrets
from kafka_native.security.scram import HASHES, Scram
from kafka_native.security.unsecured_jwt import unsecured_source
from kafka_native.types import version


def mechanism_of(config: Config) -> Mechanism:
    """Return the mechanism of a client whose ``security.protocol`` uses SASL.

    :raises KafkaException: ``_INVALID_ARG``: the mechanism is unknown or lacks a property.
    """
    name = config.text("sasl.mechanisms")
    make = MECHANISMS.get(name)
    if make is None:
        close = difflib.get_close_matches(name.upper(), MECHANISMS, n=1, cutoff=0.6)
        hint = f'did you mean "{close[0]}"?' if close else f"one of {', '.join(MECHANISMS)}"
        _fail(config, f"Unsupported SASL mechanism: {name}", hint)
    try:
        return make(config)
    except SaslError as error:
        _fail(config, str(error), None if config.is_set("sasl.mechanisms") else UNCHOSEN)


def _fail(config: Config, text: str, hint: str | None = None) -> NoReturn:
    raise KafkaException(
        KafkaError(KafkaError._INVALID_ARG, f"Failed to create {config.role}: {text}"), hint=hint
    )


def _credentials(config: Config) -> Credentials:
    if not (config.is_set("sasl.username") and config.is_set("sasl.password")):
        _fail(
            config,
            "sasl.username and sasl.password must be set",
            f"for {config.text('sasl.mechanisms')}",
        )
    return Credentials(config.text("sasl.username"), config.text("sasl.password"))


def _plain(config: Config) -> Mechanism:
    return Plain(_credentials(config))


def _scram(config: Config) -> Mechanism:
    return Scram(
        config.text("sasl.mechanisms"),
        _credentials(config),
        is_token=config.flag("sasl.scram.tokenauth"),
    )


def _oauthbearer(config: Config) -> Mechanism:
    unsecured = config.flag("enable.sasl.oauthbearer.unsecure.jwt")
    if config["sasl.oauthbearer.method"] == "oidc":
        if unsecured:
            text = (
                "`enable.sasl.oauthbearer.unsecure.jwt` and `sasl.oauthbearer.method=oidc` are "
                "mutually exclusive"
            )
            _fail(config, text)
        return _oidc(config)
    oauth_cb = config.function("oauth_cb")
    given = config["sasl.oauthbearer.config"]
    own = given if isinstance(given, str) else None
    if oauth_cb is not None:
        return OAuthBearer(callback_source(oauth_cb, own), [own or ""])
    if unsecured:
        # Anyone can make such tokens, so they expose nothing.
        return OAuthBearer(unsecured_source(own or ""), exposes="")
    _fail(
        config,
        "OAUTHBEARER needs `oauth_cb`, `sasl.oauthbearer.method=oidc` or, for tests, "
        "unsecured tokens",
    )


def _oidc(config: Config) -> Mechanism:
    cloud = config.text("sasl.oauthbearer.metadata.authentication.type")
    if cloud == "aws_iam":
        extensions = parsed_extensions(config.text("sasl.oauthbearer.extensions"))
        subject_claim = config.text("sasl.oauthbearer.sub.claim.name")
        own = config.text("sasl.oauthbearer.config")
        secrets = Secrets()
        source = aws_iam(own, extensions, partial(claims_of, subject_claim=subject_claim), secrets)
        return OAuthBearer(source, secrets, remarks=aws_remarks(own))
    if cloud == "azure_imds":
        endpoint = config.text("sasl.oauthbearer.token.endpoint.url")
        provider = _provider(config, azure_url(endpoint, config.text("sasl.oauthbearer.config")))
        return OAuthBearer(azure_imds(provider), provider.secrets, remarks=provider.remarks)
    grant = config.text("sasl.oauthbearer.grant.type")
    url, client_id, secret = (
        config.text("sasl.oauthbearer.token.endpoint.url"),
        config.text("sasl.oauthbearer.client.id"),
        config.text("sasl.oauthbearer.client.secret"),
    )
    wanted = {"token.endpoint.url": url}
    if grant != JWT_BEARER:
        wanted |= {"client.id": client_id, "client.secret": secret}
    for name, value in wanted.items():
        if not value:
            _fail(
                config,
                f"`sasl.oauthbearer.{name}` is mandatory when `sasl.oauthbearer.method=oidc` "
                "is set",
            )
    provider = _provider(config, url)
    scope = config.text("sasl.oauthbearer.scope")
    if grant == JWT_BEARER:
        source = jwt_bearer(provider, _assertion(config), scope)
        provider.secrets.keep(config.text("sasl.oauthbearer.assertion.private.key.passphrase"))
    else:
        source = client_credentials(provider, client_id, secret, scope)
    return OAuthBearer(source, provider.secrets, remarks=provider.remarks)


def _provider(config: Config, url: str) -> Provider:
    ca_location, ca_pem = config.text("https.ca.location"), config.text("https.ca.pem")
    if ca_location and ca_pem:
        _fail(config, "`https.ca.location` and `https.ca.pem` are mutually exclusive")
    return Provider(
        url,
        partial(https_context, ca_location, ca_pem),
        config.text("sasl.oauthbearer.sub.claim.name"),
        parsed_extensions(config.text("sasl.oauthbearer.extensions")),
    )


def _assertion(config: Config) -> Callable[[float], str]:
    """Return a source of assertions: a ready one from a file, or one that the client signs."""
    ready, key_file, key_pem, template = (
        config.text("sasl.oauthbearer.assertion.file"),
        config.text("sasl.oauthbearer.assertion.private.key.file"),
        config.text("sasl.oauthbearer.assertion.private.key.pem"),
        config.text("sasl.oauthbearer.assertion.jwt.template.file"),
    )
    if bool(ready) + bool(key_file) + bool(key_pem) > 1:
        names = "`file`, `private.key.file` and `private.key.pem` of `sasl.oauthbearer.assertion`"
        _fail(config, f"{names} are mutually exclusive")
    if ready:
        read(ready, "sasl.oauthbearer.assertion.file")
        return lambda now: read(ready, "sasl.oauthbearer.assertion.file").strip()
    if not key_file and not key_pem:
        names = (
            "`sasl.oauthbearer.assertion.private.key.file` or "
            "`sasl.oauthbearer.assertion.private.key.pem`"
        )
        _fail(
            config,
            f"{names} is mandatory when `sasl.oauthbearer.grant.type` is set to `{JWT_BEARER}`",
        )
    assertion = Assertion(
        algorithm=config.text("sasl.oauthbearer.assertion.algorithm"),
        key=partial(read, key_file, "sasl.oauthbearer.assertion.private.key.file")
        if key_file
        else lambda: key_pem,
        passphrase=config.text("sasl.oauthbearer.assertion.private.key.passphrase"),
        claims={
            "aud": config.text("sasl.oauthbearer.assertion.claim.aud"),
            "iss": config.text("sasl.oauthbearer.assertion.claim.iss"),
            "sub": config.text("sasl.oauthbearer.assertion.claim.sub"),
        },
        expires_s=config.integer("sasl.oauthbearer.assertion.claim.exp.seconds"),
        not_before_s=config.integer("sasl.oauthbearer.assertion.claim.nbf.seconds"),
        with_id=config.flag("sasl.oauthbearer.assertion.claim.jti.include"),
        template=partial(read, template, "sasl.oauthbearer.assertion.jwt.template.file")
        if template
        else None,
    )
    assertion(time.time())  # Reports errors of the key and the template now
    return assertion


def _aws_msk_iam(config: Config) -> Mechanism:
    return AwsMskIam(chain(), f"kafka-native/{version()}/python", config.text("sasl.aws.region"))


def _gssapi(config: Config) -> Mechanism:
    service, keytab = config.text("sasl.kerberos.service.name"), config.text("sasl.kerberos.keytab")
    principal, command = (
        config.text("sasl.kerberos.principal"),
        config.text("sasl.kerberos.kinit.cmd"),
    )
    values = {
        "sasl.kerberos.service.name": service,
        "sasl.kerberos.principal": principal,
        "sasl.kerberos.keytab": keytab,
        "bootstrap.servers": config.text("bootstrap.servers"),
    }
    return Gssapi(
        service,
        principal if config.is_set("sasl.kerberos.principal") else "",
        keytab,
        expanded(command, values) if config.is_set("sasl.kerberos.kinit.cmd") else "",
        config.integer("sasl.kerberos.min.time.before.relogin") / 1000,
        secrets=words_of(command) if config.is_set("sasl.kerberos.kinit.cmd") else (),
    )


MECHANISMS: dict[str, Callable[[Config], Mechanism]] = {
    "PLAIN": _plain,
    **dict.fromkeys(HASHES, _scram),
    "OAUTHBEARER": _oauthbearer,
    "AWS_MSK_IAM": _aws_msk_iam,
    "GSSAPI": _gssapi,
}
"""The function that makes each mechanism, by its name in SaslHandshake."""
