"""The broker's side of AWS_MSK_IAM: it checks the JSON payload that a client signed.

The payload is a presigned GET with AWS Signature Version 4.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import json
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafka_native.mock.accounts import AwsKey

VERSION: Final = "2020_10_22"
_ALGORITHM = "AWS4-HMAC-SHA256"
_ACTION = "kafka-cluster:Connect"
_SERVICE = "kafka-cluster"
_CREDENTIAL = re.compile(rf"([A-Z0-9]+)/(\d{{8}})/([a-z0-9-]+)/{_SERVICE}/aws4_request", re.ASCII)
_CLOCK_SKEW_MAX_S = 300
_EXPIRES_MAX_S = 900
_REQUIRED = (
    "version",
    "host",
    "user-agent",
    "action",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signedheaders",
    "x-amz-expires",
    "x-amz-signature",
)
_TOKEN = "x-amz-security-token"
_QUERY_NAMES = {
    "action": "Action",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "x-amz-expires": "X-Amz-Expires",
    _TOKEN: "X-Amz-Security-Token",
    "x-amz-signedheaders": "X-Amz-SignedHeaders",
}


class Signed(NamedTuple):
    """The key id of the signer, and the signed ``host``, ``user-agent`` and ``region``."""

    key_id: str
    properties: dict[str, str]


def check(payload: bytes, keys: Mapping[str, AwsKey], now: float) -> Signed:
    """Check a payload against the known keys.

    Raises ``ValueError`` with the reason. The reason contains no secret.
    """
    fields = _fields(payload)
    credential = _CREDENTIAL.fullmatch(fields["x-amz-credential"])
    if credential is None:
        raise ValueError(f"the credential is not KEY/DATE/REGION/{_SERVICE}/aws4_request")
    key_id, day, region = credential.groups()
    key = keys.get(key_id)
    if key is None or fields.get(_TOKEN) != key.session_token:
        raise ValueError("the access key or its session token is unknown")
    _check_time(fields["x-amz-date"], day, fields["x-amz-expires"], now)
    if not hmac.compare_digest(
        _signature(fields, key.secret, day, region), fields["x-amz-signature"]
    ):
        raise ValueError("the signature doesn't match")
    return Signed(
        key_id, {"host": fields["host"], "user-agent": fields["user-agent"], "region": region}
    )


def _fields(payload: bytes) -> dict[str, str]:
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        raise ValueError("the payload isn't JSON") from None
    if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
        raise ValueError("the payload isn't a JSON object of strings")
    missing = [name for name in _REQUIRED if not fields.get(name)]
    if missing:
        raise ValueError(f"the payload lacks {', '.join(missing)}")
    fixed = {
        "version": VERSION,
        "action": _ACTION,
        "x-amz-algorithm": _ALGORITHM,
        "x-amz-signedheaders": "host",
    }
    for name, value in fixed.items():
        if fields[name] != value:
            raise ValueError(f"{name} is not {value}")
    return fields


def _check_time(date: str, day: str, expires: str, now: float) -> None:
    try:
        begin = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise ValueError("x-amz-date is not YYYYMMDD'T'hhmmss'Z'") from None
    if not date.startswith(day):
        raise ValueError("x-amz-date and the credential have different days")
    if not re.fullmatch(r"[0-9]{1,3}", expires) or not 0 < int(expires) <= _EXPIRES_MAX_S:
        raise ValueError(f"x-amz-expires is not 1 to {_EXPIRES_MAX_S} seconds")
    if not begin - _CLOCK_SKEW_MAX_S <= now <= begin + int(expires):
        raise ValueError("the request has expired, or it isn't valid yet")


def _signature(fields: Mapping[str, str], secret: str, day: str, region: str) -> str:
    query = "&".join(
        sorted(
            f"{name}={quote(fields[field], safe='-_.~')}"
            for field, name in _QUERY_NAMES.items()
            if field in fields
        )
    )
    nothing = hashlib.sha256(b"").hexdigest()
    request = f"GET\n/\n{query}\nhost:{fields['host']}\n\nhost\n{nothing}"
    scope = f"{day}/{region}/{_SERVICE}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"{_ALGORITHM}\n{fields['x-amz-date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (day, region, _SERVICE, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, text.encode(), "sha256").hex()
