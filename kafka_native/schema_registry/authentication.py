"""How a client proves to the registry who it is: basic authentication and bearer tokens."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from kafka_native.cleaning import clean
from kafka_native.schema_registry.error import OAuthTokenError
from kafka_native.schema_registry.retries import RetryPolicy, is_retriable, retry_after_s
from kafka_native.schema_registry.steps import (
    Ask,
    Call,
    ConnectionFailed,
    Response,
    Send,
    Sleep,
    UnusableAnswer,
)

IMDS_URL = "http://169.254.169.254/metadata/identity/oauth2/token"
TOKEN_LIFETIME_USED = 0.8
"""The part of a token's lifetime after which the client fetches another one."""
ANSWER_SHOWN_MAX = 300
TOKEN, CLUSTER, POOL = (
    "bearer.auth.token",
    "bearer.auth.logical.cluster",
    "bearer.auth.identity.pool.id",
)


class Authentication:
    """What the client adds to each request."""

    def headers(self, base_url: str) -> Call[dict[str, str]]:
        """Return the headers for one registry."""
        raise NotImplementedError

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Forget the token in refused headers. Return whether a new one may be had."""
        return False


class NoAuthentication(Authentication):
    """The registry needs no credentials."""

    def headers(self, base_url: str) -> Call[dict[str, str]]:
        """Return no headers at all."""
        yield from ()
        return {}


def basic(user: str, password: str) -> str:
    """Return the value of a header for basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


class BasicAuthentication(Authentication):
    """A user and a password for each registry."""

    def __init__(self, credentials: Mapping[str, tuple[str, str]]) -> None:
        self._headers = {url: {"Authorization": basic(*each)} for url, each in credentials.items()}

    def headers(self, base_url: str) -> Call[dict[str, str]]:
        """Return the header with the user and the password."""
        yield from ()
        return self._headers[base_url]


class BearerAuthentication(Authentication):
    """A token from one of the sources that ``bearer.auth.credentials.source`` names."""

    def __init__(self, cluster: str | None, pool: str | None) -> None:
        self._cluster = cluster
        self._pool = pool

    def fields(self) -> Call[Mapping[str, Any]]:
        """Return the token, the logical cluster and the identity pool."""
        token = yield from self.token()
        return {TOKEN: token, CLUSTER: self._cluster, POOL: self._pool}

    def token(self) -> Call[str]:
        """Return a valid token, fetched if need be."""
        raise NotImplementedError

    def headers(self, base_url: str) -> Call[dict[str, str]]:
        """Return the headers with the token, the cluster and the identity pool."""
        fields = yield from self.fields()
        headers = {
            "Authorization": f"Bearer {fields[TOKEN]}",
            "target-sr-cluster": fields.get(CLUSTER),
            "Confluent-Identity-Pool-Id": normalize_identity_pool(fields.get(POOL)),
        }
        return {name: str(value) for name, value in headers.items() if value is not None}


class StaticToken(BearerAuthentication):
    """A token from the configuration."""

    def __init__(self, token: str, cluster: str | None, pool: str | None) -> None:
        super().__init__(cluster, pool)
        self._token = token

    def token(self) -> Call[str]:
        """Return the token of the configuration."""
        yield from ()
        return self._token


class CustomToken(BearerAuthentication):
    """A function of the application returns the token and the other fields."""

    def __init__(self, function: Callable[[dict[str, Any]], Any], config: dict[str, Any]) -> None:
        super().__init__(None, None)
        self._function = function
        self._config = config

    def fields(self) -> Call[Mapping[str, Any]]:
        """Return what the application's function returned.

        :raises ValueError: The token is missing.
        """
        found = yield Ask(lambda: self._function(self._config))
        if not isinstance(found, Mapping) or not isinstance(found.get(TOKEN), str):
            raise ValueError(
                f"bearer.auth.custom.provider.function must return a dict with {TOKEN}"
            )
        return found


class FetchedToken(BearerAuthentication):
    """A token of an identity provider, kept for most of its lifetime."""

    def __init__(
        self,
        request: Send,
        cluster: str | None,
        pool: str | None,
        retries: RetryPolicy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(cluster, pool)
        self._retries = retries
        self._request = request
        self._clock = clock
        self._token = ""
        self._renew_at = 0.0

    def renew(self, refused: Mapping[str, str]) -> bool:
        """Forget the token. The next request fetches another one."""
        # Another thread may have been refused at the same time, and have a new token already.
        if refused.get("Authorization") == f"Bearer {self._token}":
            self._token = ""
        return True

    def token(self) -> Call[str]:
        """Return the stored token, or fetch another one.

        :raises OAuthTokenError: The identity provider returned none.
        """
        token = self._token
        if token and self._clock() < self._renew_at:
            return token
        response = yield from self._answer()
        where = _without_query(self._request.url)
        try:
            answer = json.loads(response.body)
            found = answer["access_token"]
            lifetime = float(answer.get("expires_in", 0))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            found = None
        if not isinstance(found, str) or not found:
            # The answer may contain a token in another place, so the error doesn't show it.
            raise OAuthTokenError(f"the answer of {where} has no access_token")
        self._renew_at = self._clock() + lifetime * TOKEN_LIFETIME_USED
        self._token = found
        return found

    def _answer(self) -> Call[Response]:
        """Send the request until the identity provider grants it."""
        where = _without_query(self._request.url)
        retries = 0
        while True:
            wait_s = 0.0
            cause: Exception | None = None
            try:
                response: Response = yield self._request
            except (ConnectionFailed, UnusableAnswer) as error:
                failure = OAuthTokenError(f"no token from {where}: {error}")
                cause, is_final = error, isinstance(error, UnusableAnswer)
            else:
                if response.is_success:
                    return response
                shown = _error_of(response)
                failure = OAuthTokenError(f"no token from {where}", response.status, shown)
                wait_s = retry_after_s(response)
                is_final = not is_retriable(response) or not self._retries.allows(wait_s)
            if is_final or retries >= self._retries.max_retries:
                raise failure from cause
            yield Sleep(self._retries.wait_s(retries, wait_s))
            retries += 1


def _without_query(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _error_of(response: Response) -> str:
    """Return what an identity provider says about an error (RFC 6749, section 5.2)."""
    try:
        answer = json.loads(response.body)
        texts = [answer.get("error"), answer.get("error_description")]
    except (ValueError, AttributeError, RecursionError):
        return "the answer isn't a JSON object"
    return clean(": ".join(str(each) for each in texts if each), ANSWER_SHOWN_MAX)


def normalize_identity_pool(identity_pool_raw: str | list[str] | None) -> str | None:
    """Return the identity pools as one string.

    Parameters
    ----------
    identity_pool_raw : str or list[str], optional
        One pool, several behind commas, or a list of pools.

    Returns
    -------
    str or None
        The pools behind commas. None stays None.

    Raises
    ------
    TypeError
        The value is neither a string nor a list of strings.
    """
    found: object = identity_pool_raw
    if found is None or isinstance(found, str):
        return found
    if isinstance(found, list) and all(isinstance(each, str) for each in found):
        return ",".join(found)
    raise TypeError(f"{POOL} must be a str or a list of str")


def _required(left: dict[str, Any], source: str, *names: str) -> list[str]:
    """Take properties that a source needs."""
    missing = [name for name in names if left.get(name) is None]
    if missing:
        raise ValueError(f"bearer.auth.credentials.source={source} also needs {', '.join(missing)}")
    values = [left.pop(name) for name in names]
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    return values


def bearer_authentication(
    left: dict[str, Any], retries: RetryPolicy
) -> BearerAuthentication | None:
    """Take the properties of bearer tokens. None if there are none.

    :raises ValueError: A property is missing or has a wrong value.
    :raises TypeError: A property's value has a wrong type.
    """
    source = left.pop("bearer.auth.credentials.source", None)
    if source is None:
        return None
    if source == "CUSTOM":
        return _custom(left)
    cluster = left.pop(CLUSTER, None)
    if cluster is not None and not isinstance(cluster, str):
        raise TypeError(f"{CLUSTER} must be a str, not {type(cluster).__name__}")
    pool = normalize_identity_pool(left.pop(POOL, None))
    if source == "STATIC_TOKEN":
        return StaticToken(_required(left, source, TOKEN)[0], cluster, pool)
    if source == "OAUTHBEARER":
        return FetchedToken(_client_credentials(left), cluster, pool, retries)
    if source == "OAUTHBEARER_AZURE_IMDS":
        return FetchedToken(_azure_request(left), cluster, pool, retries)
    raise ValueError(
        "bearer.auth.credentials.source must be OAUTHBEARER, OAUTHBEARER_AZURE_IMDS, "
        f"STATIC_TOKEN or CUSTOM, not {source}"
    )


def _custom(left: dict[str, Any]) -> CustomToken:
    function = left.pop("bearer.auth.custom.provider.function", None)
    config = left.pop("bearer.auth.custom.provider.config", None)
    if not callable(function):
        raise TypeError("bearer.auth.custom.provider.function must be a function")
    if not isinstance(config, dict):
        raise TypeError("bearer.auth.custom.provider.config must be a dict")
    return CustomToken(function, config)


def _client_credentials(left: dict[str, Any]) -> Send:
    """Return the request of the grant client_credentials (RFC 6749, section 4.4)."""
    client, secret, scope, url = _required(
        left,
        "OAUTHBEARER",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        "bearer.auth.issuer.endpoint.url",
    )
    form = {"grant_type": "client_credentials", "scope": scope}
    headers = {
        "Authorization": basic(quote(client, safe=""), quote(secret, safe="")),
        "Content-Type": "application/x-www-form-urlencoded;charset=UTF-8",
        "Accept": "application/json",
    }
    return Send("POST", _http_url(url), headers, urlencode(form).encode(), is_for_issuer=True)


def _azure_request(left: dict[str, Any]) -> Send:
    """Return the request to Azure's instance metadata service."""
    url = left.pop("bearer.auth.issuer.endpoint.url", None)
    query = left.pop("bearer.auth.issuer.endpoint.query", None)
    for value in (url, query):
        if value is not None and not isinstance(value, str):
            raise TypeError(
                "bearer.auth.issuer.endpoint.url and .query must be a str, "
                f"not {type(value).__name__}"
            )
    if not url and not query:
        raise ValueError("OAUTHBEARER_AZURE_IMDS needs bearer.auth.issuer.endpoint.query")
    parts = urlsplit(_http_url(url or IMDS_URL))
    url = urlunsplit(parts._replace(query=query or parts.query, fragment=""))
    headers = {"Metadata": "true", "Accept": "application/json"}
    return Send("GET", url, headers, is_for_issuer=True)


def _http_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("bearer.auth.issuer.endpoint.url must be an http:// or https:// address")
    return url
