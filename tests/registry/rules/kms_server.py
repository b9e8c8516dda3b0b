"""AWS KMS, AWS STS and HashiCorp Vault, as far as the drivers need them.

"Encryption" turns the bytes round, after the name of the key.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.registry.rules.http_server import QuietHandler, serving

ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>
<Credentials><AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>x</SecretAccessKey>
<SessionToken>t</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleResult></AssumeRoleResponse>"""


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def turned(key: str, data: bytes) -> bytes:
    return f"{key}|".encode() + data[::-1]


def turned_back(key: str, data: bytes) -> bytes:
    prefix = f"{key}|".encode()
    assert data.startswith(prefix), "another key"
    return data[len(prefix) :][::-1]


class Server:
    def __init__(self) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, str], str]] = []
        self.token = "root-token"

    def aws(self, target: str, body: dict[str, Any]) -> dict[str, Any]:
        key = body["KeyId"]
        if target.endswith(".Encrypt"):
            data = turned(key, base64.b64decode(body["Plaintext"]))
            return {"KeyId": key, "CiphertextBlob": b64(data)}
        data = turned_back(key, base64.b64decode(body["CiphertextBlob"]))
        return {"KeyId": key, "Plaintext": b64(data)}

    def vault(self, path: str, token: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "auth/approle/login":
            if body != {"role_id": "role", "secret_id": "hidden"}:
                return 400, {"errors": ["invalid role"]}
            self.token = f"token-{len(self.requests)}"
            return 200, {"auth": {"client_token": self.token}}
        if token != self.token:
            return 403, {"errors": ["permission denied"]}
        verb, key = path.removeprefix("team/transit/").split("/")
        if verb == "encrypt":
            data = turned(key, base64.b64decode(body["plaintext"]))
            return 200, {"data": {"ciphertext": f"vault:v1:{b64(data)}"}}
        data = base64.b64decode(body["ciphertext"].removeprefix("vault:v1:"))
        return 200, {"data": {"plaintext": b64(turned_back(key, data))}}


class Handler(QuietHandler):
    state: Server

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.state.requests.append((self.path, headers, text))
        status, answer = 200, ""
        if "x-amz-target" in headers:
            answer = json.dumps(self.state.aws(headers["x-amz-target"], json.loads(text)))
        elif self.path.startswith("/v1/"):
            token = headers.get("x-vault-token", "")
            status, found = self.state.vault(self.path[4:], token, json.loads(text))
            answer = json.dumps(found)
        else:
            answer = ASSUMED
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("Content-Type", "application/json" if answer[0] == "{" else "text/xml")
        self.end_headers()
        self.wfile.write(answer.encode())

    do_PUT = do_POST


@contextmanager
def running() -> Iterator[Server]:
    """Start a server on a free port."""
    state = Server()
    with serving(Handler, state):
        yield state
