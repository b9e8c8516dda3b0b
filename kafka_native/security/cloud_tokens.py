"""Tokens for the identity of this machine in a cloud: Azure's managed identities, AWS's roles.

The property ``sasl.oauthbearer.metadata.authentication.type`` chooses the cloud, and
``sasl.oauthbearer.config`` has the details. All calls may block.
"""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafka_native.security import time_limit
from kafka_native.security.aws_msk_iam import environment_secrets
from kafka_native.security.http_request import READ_MAX_BYTES, Url, whole
from kafka_native.security.mechanisms import SaslError, shown
from kafka_native.security.oauthbearer import Token
from kafka_native.security.oidc import Provider, readable_by_others
from kafka_native.security.redaction import Secrets
from kafka_native.security.time_limit import LimitedCalls

AZURE_URL = "http://169.254.169.254/metadata/identity/oauth2/token"
"""The address of Azure's Instance Metadata Service. Only the machine itself can reach it."""
AWS_MISSING = (
    "sasl.oauthbearer.metadata.authentication.type=aws_iam needs botocore: pip install "
    "'kafka-native[aws]'"
)
AWS_OLD = "this botocore doesn't know STS's GetWebIdentityToken: pip install --upgrade botocore"
AWS_NAMES = (
    "region",
    "audience",
    "duration_seconds",
    "signing_algorithm",
    "sts_endpoint",
    "aws_debug",
)
DURATIONS_S = range(60, 3601)
ALGORITHMS = ("ES384", "RS256")
TAGS_MAX = 50
CONNECT_S, READ_S = 10.0, 20.0
"""botocore's own time limits, of a connection and of each read."""
_PAIRS = re.compile(r"(?:\\.|[^,\\])+")


def pairs(text: str) -> dict[str, str]:
    r"""Parse ``name=value,...``. A value may contain ``=``, and commas as ``\,``.

    :raises SaslError: The text has another form.
    """
    found: dict[str, str] = {}
    for part in _PAIRS.findall(text):
        name, equals, value = re.sub(r"\\(.)", r"\1", part).strip().partition("=")
        if not equals or not name:
            raise SaslError(f"sasl.oauthbearer.config: {shown(name)!r} isn't name=value")
        if name in found:
            raise SaslError(f"sasl.oauthbearer.config has {shown(name)!r} twice")
        found[name] = value
    return found


def _check_names(found: Mapping[str, str], known: tuple[str, ...], what: str) -> None:
    for name in found:
        if name not in known:
            raise SaslError(
                f"sasl.oauthbearer.config: {what} doesn't know {shown(name)!r}, only "
                f"{', '.join(known)}"
            )


def azure_url(endpoint: str, config: str) -> str:
    """Return the URL of the token request.

    :raises SaslError: Neither the endpoint nor ``query`` in the configuration names the resource.
    """
    found = pairs(config)
    _check_names(found, ("query",), "azure_imds")
    query = found.get("query", "")
    if not query and not endpoint:
        text = (
            "`sasl.oauthbearer.token.endpoint.url` is mandatory for Azure IMDS authentication "
            "when `query` isn't set"
        )
        raise SaslError(text)
    url = endpoint or AZURE_URL
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def azure_imds(provider: Provider, clock: Callable[[], float] = time.time) -> Callable[[], Token]:
    """Return a source of tokens from Azure's metadata service, for the machine's identity."""
    return lambda: provider.get({"Metadata": "true"}, clock())


def _aws_request(found: Mapping[str, str]) -> dict[str, object]:
    """Return the parameters of GetWebIdentityToken."""
    tags = {name[4:]: value for name, value in found.items() if name.startswith("tag_")}
    _check_names({name: "" for name in found if name[4:] not in tags}, AWS_NAMES, "aws_iam")
    missing = [name for name in ("region", "audience") if not found.get(name)]
    if missing:
        text = (
            f"{' and '.join(missing)} must be in `sasl.oauthbearer.config` "
            "(region=us-east-1,audience=https://...)"
        )
        raise SaslError(f"sasl.oauthbearer.metadata.authentication.type=aws_iam: {text}")
    seconds, algorithm = (
        found.get("duration_seconds", "300"),
        found.get("signing_algorithm", "ES384"),
    )
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:5]) in DURATIONS_S):
        raise SaslError(
            f"duration_seconds is {shown(seconds)!r}, not {DURATIONS_S[0]} to {DURATIONS_S[-1]}"
        )
    if algorithm not in ALGORITHMS:
        raise SaslError(f"signing_algorithm is {shown(algorithm)!r}, not {' or '.join(ALGORITHMS)}")
    if found.get("aws_debug", "none") not in ("none", "console"):
        raise SaslError("aws_debug is none or console")
    if len(tags) > TAGS_MAX:
        raise SaslError(f"{len(tags)} tags: a token can have at most {TAGS_MAX}")
    request = {
        "Audience": [found["audience"]],
        "DurationSeconds": int(seconds),
        "SigningAlgorithm": algorithm,
    }
    return request | (
        {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {}
    )


def aws_remarks(config: str) -> list[str]:
    """Return warnings about this configuration. Raise SaslError if the endpoint is invalid."""
    endpoint = pairs(config).get("sts_endpoint", "")
    url = Url("sts_endpoint in sasl.oauthbearer.config", endpoint) if endpoint else None
    return (
        [readable_by_others("sts_endpoint", url)]
        if url is not None and url.is_readable_by_others
        else []
    )


class _Botocore:
    """The parts of botocore that this module uses. Raises SaslError if it isn't installed."""

    def __init__(self) -> None:
        try:
            load = importlib.import_module
            self.session = load("botocore.session").Session()
            self.settings = load("botocore.config").Config(
                connect_timeout=CONNECT_S, read_timeout=READ_S, retries={"total_max_attempts": 2}
            )
            failures = load("botocore.exceptions")
            self.failures = (
                failures.BotoCoreError,
                failures.ClientError,
                load("botocore.parsers").ResponseParserError,
            )
            self._environ_proxies = load("botocore.utils").get_environ_proxies
            self._http_class = load("botocore.httpsession").URLLib3Session
            self._response_class = load("botocore.awsrequest").AWSResponse
        except ImportError:
            raise SaslError(AWS_MISSING) from None

    def client(self, region: str, endpoint: str | None) -> Any:
        """Return a client of STS that reads at most RESPONSE_MAX_BYTES of a response."""
        client = self.session.create_client(
            "sts", region, endpoint_url=endpoint, config=self.settings
        )
        # Without this method, the caller raises AWS_OLD
        if hasattr(client, "get_web_identity_token"):
            client.meta.events.register("before-send.sts", self._sender(client.meta.endpoint_url))
        return client

    def _sender(self, endpoint: str) -> Callable[..., Any]:
        """Return a handler that sends botocore's requests with the settings of its own session."""
        http = self._http_class(
            verify=self.session.get_config_variable("ca_bundle") or True,
            proxies=self._environ_proxies(endpoint),
            timeout=(CONNECT_S, READ_S),
        )

        def send(request: Any, **_: Any) -> Any:
            request.stream_output = True
            response = http.send(request)
            try:
                content = whole(response.raw.stream(READ_MAX_BYTES))
            except SaslError:
                response.raw.close()
                raise
            return self._response_class(
                request.url, response.status_code, response.headers, _Whole(content)
            )

        return send


class _Whole:
    """A complete response body with botocore's interface."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Iterator[bytes]:
        """Yield the whole body."""
        yield self._content


def aws_iam(
    config: str,
    extensions: Mapping[str, str],
    decode: Callable[[str], tuple[str, float | None]],
    secrets: Secrets,
) -> Callable[[], Token]:
    """Return a source of tokens from AWS's Security Token Service.

    The token is for the role of this machine or process. botocore finds the credentials.

    :param decode: Returns a token's subject and expiry time.
    :param secrets: The source adds the secrets that it sends.
    """
    found = pairs(config)
    request = _aws_request(found)
    botocore = _Botocore()
    if found.get("aws_debug") == "console":
        botocore.session.set_stream_logger("botocore", logging.DEBUG)
    calls = LimitedCalls("AWS STS")
    client: Any = None

    def ask() -> Any:
        nonlocal client
        if client is None:
            client = botocore.client(found["region"], found.get("sts_endpoint") or None)
        if not hasattr(client, "get_web_identity_token"):
            raise SaslError(AWS_OLD)
        secrets.add(*environment_secrets())
        credentials = botocore.session.get_credentials()
        if credentials is not None:
            frozen = credentials.get_frozen_credentials()
            secrets.add(frozen.secret_key, frozen.token or "")
        return client.get_web_identity_token(**request)

    def source() -> Token:
        try:
            answer = calls.run(ask, time_limit.FETCH_S)
            value, expiration = answer["WebIdentityToken"], answer["Expiration"].timestamp()
        except KeyError:
            raise SaslError("AWS STS answers without a token") from None
        except botocore.failures as error:
            text = shown(str(error), secrets)
        else:
            subject, expires = decode(value)
            return Token(value, expiration if expires is None else expires, subject, extensions)
        # Outside of the except block, because the text of a chained exception isn't redacted.
        raise SaslError(f"AWS STS gives no token: {text}")

    return source
