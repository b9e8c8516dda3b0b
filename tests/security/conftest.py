"""An authority and a broker's certificate for a module, and AWS credentials."""

from __future__ import annotations

import pytest
import trustme

from tests.security.handshakes import HOST


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(organization_name="Authority")


@pytest.fixture(scope="module")
def broker(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(HOST, "10.0.0.1", "2001:db8::1")


@pytest.fixture
def aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set AWS credentials in the environment. Skip the test without botocore."""
    pytest.importorskip("botocore.session")  # now: a time limit would count a slow import
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-word")


@pytest.fixture
def no_aws_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove AWS credentials from the environment, and hide those in files."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
