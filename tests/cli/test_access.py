"""The commands acls and users on the mock cluster, for users and for scripts."""

from __future__ import annotations

import hashlib
import json
import shlex
from typing import Any

import pytest

from kafka_native.mock import MockCluster
from tests.cli.running import invoke, run
from tests.cli.terminal import terminal

SECRET = "hunter2-Secret"


def cli(cluster: MockCluster, *words: str, status: int = 0, stdin: bytes = b"", **env: str) -> str:
    result = invoke(*words, "-b", cluster.bootstrap_servers, stdin=stdin, env=env)
    assert result.exit_code == status, result.output
    assert SECRET not in result.output
    return result.stdout if status == 0 else result.stderr


def listed(cluster: MockCluster, *words: str) -> list[tuple[str, ...]]:
    found: list[dict[str, Any]] = json.loads(cli(cluster, "acls", "list", *words, "--json"))
    names = ("kind", "name", "pattern", "principal", "host", "operation", "permission")
    return [tuple(each[name] for name in names) for each in found]


# --- permissions ---


def allow(cluster: MockCluster, *words: str) -> str:
    return cli(cluster, "acls", "create", *words)


def test_permissions_are_created_for_each_combination(cluster: MockCluster) -> None:
    principals = ["--principal", "User:alice", "--principal", "User:bob"]
    words = shlex.split("-t orders -g readers --operation read --operation describe")
    output = allow(cluster, *words, *principals)
    assert len(output.splitlines()) == 8
    assert "created: allow User:alice to read topic orders" in output.splitlines()
    assert ("group", "readers", "literal", "User:bob", "*", "describe", "allow") in listed(cluster)
    assert len(cluster.access.acls) == 8


def test_every_kind_of_permission(cluster: MockCluster) -> None:
    principals = ["--principal", "User:a"]
    allow(cluster, "--cluster", *principals, "--operation", "idempotent-write")
    words = shlex.split("--transactional-id bank- --prefixed --operation write --host 10.0.0.1")
    allow(cluster, *words, *principals)
    allow(cluster, "--transactional-id", "bank", *principals, "--operation", "two-phase-commit")
    allow(cluster, "--delegation-token", "token-1", *principals, "--operation", "describe")
    allow(cluster, "--user-principal", "User:b", *principals, "--operation", "create-tokens")
    allow(cluster, "-t", "*", *principals, "--operation", "all", "--deny")
    assert listed(cluster) == [
        ("topic", "*", "literal", "User:a", "*", "all", "deny"),
        ("cluster", "kafka-cluster", "literal", "User:a", "*", "idempotent-write", "allow"),
        ("transactional-id", "bank", "literal", "User:a", "*", "two-phase-commit", "allow"),
        ("transactional-id", "bank-", "prefixed", "User:a", "10.0.0.1", "write", "allow"),
        ("delegation-token", "token-1", "literal", "User:a", "*", "describe", "allow"),
        ("user", "User:b", "literal", "User:a", "*", "create-tokens", "allow"),
    ]
    assert "name a resource" in cli(
        cluster, "acls", "create", *principals, "--operation", "read", status=2
    )
    words = shlex.split("acls create -t a --principal alice --operation read")
    assert "Error: acl allow alice" in cli(cluster, *words, status=1)


@pytest.fixture
def guarded(cluster: MockCluster) -> MockCluster:
    allow(cluster, "-t", "orders", "--principal", "User:alice", "--operation", "read")
    allow(cluster, "-t", "ord", "--prefixed", "--principal", "User:bob", "--operation", "write")
    allow(cluster, "-g", "readers", "--principal", "User:alice", "--operation", "read", "--deny")
    return cluster


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ([], 3),
        (["--principal", "User:alice"], 2),
        (["-t", "orders"], 1),
        (["-t", "orders", "--pattern", "match"], 2),
        (["-t", "orders", "-g", "readers"], 2),
        (["--permission", "deny"], 1),
        (["--operation", "write"], 1),
        (["--pattern", "prefixed"], 1),
        (["--host", "10.0.0.1"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_list_and_delete_select_the_same_permissions(
    guarded: MockCluster, options: list[str], count: int
) -> None:
    before = listed(guarded)
    meant = listed(guarded, *options)
    assert len(meant) == count
    gone = cli(guarded, "acls", "delete", *options, "--yes", *([] if options else ["--all"]))
    assert len(gone.splitlines()) == count
    assert listed(guarded) == [each for each in before if each not in meant]


def test_deleting_permissions_needs_a_confirmation(guarded: MockCluster) -> None:
    assert "say which permissions, or --all" in cli(guarded, "acls", "delete", "--yes", status=2)
    assert "say --yes" in cli(guarded, "acls", "delete", "-t", "orders", status=2)
    assert len(guarded.access.acls) == 3
    with terminal("acls", "delete", "-t", "orders", "-b", guarded.bootstrap_servers) as screen:
        screen.wait_for("Delete 1 permissions? [y/N]")
        assert "allow User:alice to read topic orders" in screen.shown
        screen.type("y\n")
        assert screen.end() == 0
    assert len(guarded.access.acls) == 2


# --- users ---


def has_password(cluster: MockCluster, user: str, password: str, mechanism: int = 2) -> bool:
    """Return whether the cluster's credential belongs to this password."""
    credential = cluster.access.users[user][mechanism]
    name = {1: "sha256", 2: "sha512"}[mechanism]
    derived = hashlib.pbkdf2_hmac(name, password.encode(), credential.salt, credential.iterations)
    return derived == credential.salted_password


def test_password_from_stdin_and_from_the_environment(cluster: MockCluster) -> None:
    output = cli(cluster, "users", "set", "alice", "--password-stdin", stdin=f"{SECRET}\n".encode())
    assert output == "user alice: has a password for SCRAM-SHA-512\n"
    assert has_password(cluster, "alice", SECRET)
    options = shlex.split("--mechanism SCRAM-SHA-256 --iterations 8192 --password-env NEW_PASSWORD")
    cli(cluster, "users", "set", "alice", *options, NEW_PASSWORD=SECRET)
    assert has_password(cluster, "alice", SECRET, 1)
    found = json.loads(cli(cluster, "users", "list", "--json"))
    assert found == [
        {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 8192},
        {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert cli(cluster, "users", "list", "alice", "bob", status=1).startswith("Error: user bob: ")


def test_password_is_asked_for_and_not_shown(cluster: MockCluster) -> None:
    with terminal("users", "set", "alice", "-b", cluster.bootstrap_servers) as screen:
        screen.wait_for("Password of alice:")
        screen.type(f"{SECRET}\n")
        screen.wait_for("Repeat for confirmation:")
        screen.type(f"{SECRET}\n")
        assert screen.end() == 0
    assert SECRET not in screen.shown
    assert has_password(cluster, "alice", SECRET)


def test_missing_password_is_an_error(cluster: MockCluster) -> None:
    assert "there is no terminal to ask on" in cli(cluster, "users", "set", "alice", status=2)
    assert "no password on stdin" in cli(
        cluster, "users", "set", "alice", "--password-stdin", status=1
    )
    assert "NOT_THERE isn't set" in cli(
        cluster, "users", "set", "alice", "--password-env", "NOT_THERE", status=1
    )
    stdin = cli(cluster, "users", "set", "a", "--password-stdin", stdin=b"secr\xff\n", status=1)
    variable = cli(cluster, "users", "set", "a", "--password-env", "A", A="secr\udcff", status=1)
    assert (stdin, variable) == ("Error: the password isn't UTF-8\n",) * 2
    cli(cluster, "users", "set", "alice", "--password-stdin", "--password-env", "A", status=2)
    assert not cluster.access.users


def test_password_cannot_be_an_argument(cluster: MockCluster) -> None:
    done = run("users", "set", "alice", "--password", SECRET, "-b", cluster.bootstrap_servers)
    assert done.returncode == 2
    assert SECRET.encode() not in done.stdout


def test_users_are_deleted(cluster: MockCluster) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        options = ["--mechanism", mechanism, "--password-stdin"]
        cli(cluster, "users", "set", "alice", *options, stdin=b"secret\n")
    assert "say --yes" in cli(cluster, "users", "delete", "alice", status=2)
    cli(cluster, "users", "delete", "alice", "--mechanism", "SCRAM-SHA-256", "-y")
    assert list(cluster.access.users["alice"]) == [2]
    assert (
        cli(cluster, "users", "delete", "alice", "-y")
        == "credential alice SCRAM-SHA-512: deleted\n"
    )
    assert not cluster.access.users
    assert cli(cluster, "users", "delete", "alice", "-y", status=1).startswith("Error: ")
