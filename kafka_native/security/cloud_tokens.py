"""Tokens for the identity that a cloud has given this machine: Azure's managed identities, AWS's roles.

`sasl.oauthbearer.metadata.authentication.type` chooses; `sasl.oauthbearer.config` says more. Everything here may take
long.
"""

from __future__ import annotations

import importlib
import logging
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka_native.security.mechanisms import SaslError, shown
from kafka_native.security.oauthbearer import Token
from kafka_native.security.oidc import ANSWER_S, CONNECT_S, Provider

AZURE_URL = "http://169.254.169.254/metadata/identity/oauth2/token"
"""Of Azure's Instance Metadata Service, which only the machine itself reaches."""
AWS_MISSING = "sasl.oauthbearer.metadata.authentication.type=aws_iam needs botocore: pip install 'kafka-native[aws]'"
AWS_OLD = "this botocore doesn't know STS's GetWebIdentityToken: pip install --upgrade botocore"
AWS_NAMES = ("region", "audience", "duration_seconds", "signing_algorithm", "sts_endpoint", "aws_debug")
DURATIONS_S = range(60, 3601)
ALGORITHMS = ("ES384", "RS256")
TAGS_MAX = 50
_PAIRS = re.compile(r"(?:\\.|[^,\\])+")


def pairs(text: str) -> dict[str, str]:
    r"""``name=value,...``: a value may have ``=``, and commas as ``\,``; SaslError for what isn't that."""
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
            raise SaslError(f"sasl.oauthbearer.config: {shown(name)!r} means nothing to {what}, {', '.join(known)} do")


def azure_url(endpoint: str, config: str) -> str:
    """Where to ask; SaslError if neither the endpoint nor ``query`` in the configuration says for what."""
    found = pairs(config)
    _check_names(found, ("query",), "azure_imds")
    query = found.get("query", "")
    if not query and not endpoint:
        text = "`sasl.oauthbearer.token.endpoint.url` is mandatory for Azure IMDS authentication when `query` isn't set"
        raise SaslError(text)
    url = endpoint or AZURE_URL
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def azure_imds(provider: Provider, clock: Callable[[], float] = time.time) -> Callable[[], Token]:
    """Tokens of the machine's metadata service, for the identity that Azure has given it."""
    return lambda: provider.get({"Metadata": "true"}, clock())


def _aws_request(found: Mapping[str, str]) -> dict[str, Any]:
    """GetWebIdentityToken's parameters."""
    tags = {name[4:]: value for name, value in found.items() if name.startswith("tag_")}
    _check_names({name: "" for name in found if name[4:] not in tags}, AWS_NAMES, "aws_iam")
    missing = [name for name in ("region", "audience") if not found.get(name)]
    if missing:
        text = f"{' and '.join(missing)} must be in `sasl.oauthbearer.config` (region=us-east-1,audience=https://...)"
        raise SaslError(f"sasl.oauthbearer.metadata.authentication.type=aws_iam: {text}")
    seconds, algorithm = found.get("duration_seconds", "300"), found.get("signing_algorithm", "ES384")
    if not (seconds.isascii() and seconds.isdigit() and int(seconds[:5]) in DURATIONS_S):
        raise SaslError(f"duration_seconds is {shown(seconds)!r}, not {DURATIONS_S[0]} to {DURATIONS_S[-1]}")
    if algorithm not in ALGORITHMS:
        raise SaslError(f"signing_algorithm is {shown(algorithm)!r}, not {' or '.join(ALGORITHMS)}")
    if found.get("aws_debug", "none") not in ("none", "console"):
        raise SaslError("aws_debug is none or console")
    if len(tags) > TAGS_MAX:
        raise SaslError(f"{len(tags)} tags are more than the {TAGS_MAX} that a token may have")
    request = {"Audience": [found["audience"]], "DurationSeconds": int(seconds), "SigningAlgorithm": algorithm}
    return request | ({"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]} if tags else {})


def aws_iam(
    config: str, extensions: Mapping[str, str], decode: Callable[[str], tuple[str, float | None]]
) -> Callable[[], Token]:
    """Tokens of AWS's Security Token Service, for the role that this machine or process has; credentials by botocore.

    ``decode`` tells a token's subject and when it expires.
    """
    found = pairs(config)
    request = _aws_request(found)
    try:
        session_class = importlib.import_module("botocore.session").Session
        settings = importlib.import_module("botocore.config").Config(
            connect_timeout=CONNECT_S, read_timeout=ANSWER_S, retries={"total_max_attempts": 2}
        )
        failures = importlib.import_module("botocore.exceptions")
    except ImportError:
        raise SaslError(AWS_MISSING) from None
    session = session_class()
    if found.get("aws_debug") == "console":
        session.set_stream_logger("botocore", logging.DEBUG)
    client: Any = None

    def source() -> Token:
        nonlocal client
        try:
            if client is None:
                endpoint = found.get("sts_endpoint") or None
                client = session.create_client("sts", found["region"], endpoint_url=endpoint, config=settings)
            if not hasattr(client, "get_web_identity_token"):
                raise SaslError(AWS_OLD)
            answer = client.get_web_identity_token(**request)
        except (failures.BotoCoreError, failures.ClientError) as error:
            raise SaslError(f"AWS STS gives no token: {shown(str(error))}") from None
        subject, expires = decode(answer["WebIdentityToken"])
        return Token(answer["WebIdentityToken"], expires or answer["Expiration"].timestamp(), subject, extensions)

    return source
