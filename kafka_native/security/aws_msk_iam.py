"""AWS_MSK_IAM: Amazon MSK's mechanism, a request signed with AWS credentials (Signature Version 4).

If botocore is installed, its whole chain finds the credentials: environment, files, roles of
containers and machines. Otherwise only the environment variables count.
"""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from urllib.parse import quote

from kafka_native.security import time_limit
from kafka_native.security.mechanisms import Exchange, Mechanism, SaslError, shown
from kafka_native.security.redaction import REDACTED, Secrets
from kafka_native.security.secret_buffer import SecretBuffer
from kafka_native.security.time_limit import LimitedCalls

VERSION = "2020_10_22"
SERVICE = "kafka-cluster"
ALGORITHM = "AWS4-HMAC-SHA256"
AWS4 = b"AWS4"
VALID_S = 900
EXPOSED_TEXT = f"sees the signed request, which anyone can use for {VALID_S // 60} minutes"
RESPONSE_MAX_BYTES = 65536
CREDENTIALS_HINT = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pip install botocore for the other ways"
)
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
)
_SECRET_FILES = ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE")
_FILE_MAX_BYTES = 1 << 20
_HOST = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?", re.ASCII)


class AwsCredentials:
    """An AWS access key. The repr shows neither the secret key nor the session token.

    Both are overwritten with the last reference.
    """

    __slots__ = ("_secret_key", "_session_token", "access_key")

    def __init__(self, access_key: str, secret_key: str, session_token: str | None = None) -> None:
        """Store the values as AWS issued them.

        Only credentials that expire have a session token.
        """
        self.access_key = access_key
        self._secret_key = SecretBuffer(secret_key)
        self._session_token = None if session_token is None else SecretBuffer(session_token)

    @property
    def secret_key(self) -> str:
        """A new copy of the secret key."""
        return self._secret_key.text()

    @property
    def session_token(self) -> str | None:
        """A new copy of the session token, or None."""
        return None if self._session_token is None else self._session_token.text()

    def signing_key(self, parts: Iterable[str]) -> SecretBuffer:
        """Return the key that signs for a day, a region and a service (Signature Version 4)."""
        key = SecretBuffer(bytes(len(AWS4) + len(self._secret_key.data)))
        key.data[: len(AWS4)] = AWS4
        key.data[len(AWS4) :] = self._secret_key.data
        for part in parts:
            key = SecretBuffer.taken(hmac.digest(key.data, part.encode(), "sha256"))
        return key

    def __repr__(self) -> str:
        return f"AwsCredentials({self.access_key!r}, {REDACTED})"


def chain() -> Callable[[], AwsCredentials]:
    """Return the source of credentials.

    Each authentication calls it, because credentials may expire.
    """
    try:
        session = importlib.import_module("botocore.session").Session()
    except ImportError:
        return from_environment

    # Credentials of a role come over HTTP
    calls = LimitedCalls("botocore's search for AWS credentials")

    def find() -> AwsCredentials:
        found = session.get_credentials()
        if found is None:
            raise SaslError(f"botocore finds no AWS credentials: {CREDENTIALS_HINT}")
        frozen = found.get_frozen_credentials()
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token)

    return lambda: calls.run(find, time_limit.FETCH_S)


def from_environment(environment: Mapping[str, str] = os.environ) -> AwsCredentials:
    """Return AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN."""
    access_key, secret_key = (
        environment.get(f"AWS_{name}", "") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")
    )
    if not access_key or not secret_key:
        raise SaslError(f"there are no AWS credentials: {CREDENTIALS_HINT}")
    return AwsCredentials(access_key, secret_key, environment.get("AWS_SESSION_TOKEN") or None)


def region_of(host: str, environment: Mapping[str, str] = os.environ) -> str:
    """Return the region in a broker's name, or the environment's.

    Raise SaslError if neither has one.
    """
    match = _HOST.search(host.lower())
    region = (
        match[1]
        if match
        else environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    )
    if not region:
        raise SaslError(
            f"the AWS region is unknown: {shown(host)} doesn't contain it; set "
            "sasl.aws.region or AWS_REGION"
        )
    return region


def environment_secrets(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return the keys and tokens of the environment, which botocore may send to a server.

    The server may repeat them in an error.
    """
    found = [environment.get(name, "") for name in _SECRET_VARIABLES]
    for name in _SECRET_FILES:
        # botocore reports errors of the file
        with (
            suppress(OSError, ValueError),
            open(environment.get(name, ""), encoding="utf-8") as file,
        ):
            found.append(file.read(_FILE_MAX_BYTES).strip())
    return [each for each in found if each]


class AwsMskIam(Mechanism):
    """The SASL mechanism of Amazon MSK."""

    name = "AWS_MSK_IAM"
    exposes = EXPOSED_TEXT

    def __init__(
        self,
        credentials: Callable[[], AwsCredentials],
        user_agent: str,
        region: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the mechanism.

        :param credentials: Returns credentials. It may block.
        :param region: Empty: the region in the broker's name, or the environment's.
        """
        self.credentials = credentials
        self.user_agent = user_agent
        self.region = region
        self.clock = clock
        self._access_key = ""  # the last one
        self._sent = Secrets()

    @property
    def user(self) -> str:
        """The id of the access key."""
        return self._access_key

    def next_credentials(self) -> AwsCredentials:
        """Return the credentials for an exchange."""
        credentials = self.credentials()
        self._access_key = credentials.access_key
        return credentials

    def close(self) -> None:
        """Overwrite the secrets of the last exchanges."""
        self._sent.wipe()

    def secrets(self) -> Iterable[str]:
        """Return the secret keys, session tokens and signatures of the last exchanges.

        A signature is valid for some minutes.
        """
        return self._sent

    def remember(self, *secrets: str) -> None:
        """Add secrets of an exchange."""
        self._sent.add(*secrets)

    def exchange(self, host: str, port: int) -> Exchange:
        """Start an authentication."""
        return AwsMskIamExchange(self, host)


class AwsMskIamExchange(Exchange):
    """Sends the signed request, and checks that the response comes from Amazon MSK."""

    def __init__(self, mechanism: AwsMskIam, host: str) -> None:
        """Make the exchange with the broker of this name."""
        self._mechanism = mechanism
        self._host = host

    def begin(self) -> bytes:
        """Return the request and its signature as JSON."""
        mechanism = self._mechanism
        region = mechanism.region or region_of(self._host)
        mechanism.remember(*environment_secrets())
        credentials = mechanism.next_credentials()
        payload = signed_payload(
            credentials, self._host, region, mechanism.user_agent, mechanism.clock()
        )
        mechanism.remember(
            credentials.secret_key, credentials.session_token or "", payload["x-amz-signature"]
        )
        return json.dumps(payload, separators=(",", ":")).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Check the broker's response. Nothing more is sent."""
        try:
            response: object = (
                json.loads(challenge) if len(challenge) <= RESPONSE_MAX_BYTES else None
            )
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict) or response.get("version") != VERSION:
            text = shown(challenge.decode("utf-8", "replace"), self._mechanism.secrets())
            raise SaslError(f"the broker's answer isn't Amazon MSK's: {text}")
        self.done = True
        return None


def signed_payload(
    credentials: AwsCredentials, host: str, region: str, user_agent: str, now: float
) -> dict[str, str]:
    """Return the fields of a presigned GET for ``kafka-cluster:Connect``.

    ``now`` is in seconds since the epoch.
    """
    moment = time.gmtime(now)
    day, date = time.strftime("%Y%m%d", moment), time.strftime("%Y%m%dT%H%M%SZ", moment)
    scope = f"{day}/{region}/{SERVICE}/aws4_request"
    query = {
        "Action": f"{SERVICE}:Connect",
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": date,
        "X-Amz-Expires": str(VALID_S),
        **(
            {"X-Amz-Security-Token": credentials.session_token} if credentials.session_token else {}
        ),
        "X-Amz-SignedHeaders": "host",
    }
    listed = "&".join(f"{name}={quote(value, safe='-_.~')}" for name, value in query.items())
    request = f"GET\n/\n{listed}\nhost:{host}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"{ALGORITHM}\n{date}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = credentials.signing_key((day, region, SERVICE, "aws4_request"))
    signature = hmac.digest(key.data, text.encode(), "sha256").hex()
    key.wipe()
    fields = {name.lower(): value for name, value in query.items()}
    return {
        "version": VERSION,
        "host": host,
        "user-agent": user_agent,
        **fields,
        "x-amz-signature": signature,
    }
