"""``kafka-native doctor``: why a connection fails, step by step."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import asdict

import click

from kafka_native.cli.connection import Connection, connected
from kafka_native.cli.diagnosis import NO_CLUSTER_TEXT, Diagnosis, Step, diagnose
from kafka_native.cli.registry import registry_config
from kafka_native.terminal.output import Output, json_option, printer, status, styled

MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "failed": ("FAILED", "bold red")}
MARKS["skipped"] = ("skipped", "dim")
STATUS_WIDTH, KIND_WIDTH = 8, 14


@click.command("doctor")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    help="Also check that you may read and write it, and with -r its newest values; repeatable.",
)
@click.option(
    "-G", "--group", "groups", multiple=True, help="Also check that you may join it; repeatable."
)
@click.option("-q", "--quiet", is_flag=True, help="Show only steps that aren't ok.")
@connected(required=False, registry=True)
@json_option
def command(
    connection: Connection,
    output: Output,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    quiet: bool,
) -> None:
    """Find out why a connection fails, step by step.

    The steps are configuration, DNS, TCP, TLS, log-in and the brokers' advertised addresses, as a
    client takes them; with -r also the schema registry. For each step the command prints the
    result, the likely cause and what to set. The exit status names the first kind of step that
    failed: see the documentation.
    """
    with status() if sys.stderr.isatty() else nullcontext() as line:
        found = diagnose(
            connection.properties,
            topics=tuple(dict.fromkeys(topics)),
            groups=tuple(dict.fromkeys(groups)),
            registry=registry_config(connection) if connection.registry.get("url") else None,
            timeout_s=connection.timeout_s,
            report=lambda text: None if line is None else line.update(styled(text)),
        )
    if output.as_json:
        output.document(
            {
                "ok": found.failed is None,
                "failed": found.failed,
                "exit_code": found.exit_code,
                "steps": [asdict(step) for step in found.steps],
            }
        )
    else:
        _show(found, quiet)
    raise click.exceptions.Exit(found.exit_code)


def _show(found: Diagnosis, quiet: bool) -> None:
    console = printer()
    for step in found.steps:
        if quiet and step.status in ("ok", "skipped"):
            continue
        if step.status == "skipped" and step.text == NO_CLUSTER_TEXT:
            continue  # the user asks for the registry alone
        console.print(styled(*_parts(step)), soft_wrap=True)
        indent = " " * (STATUS_WIDTH + 1)
        if step.cause:
            console.print(styled(f"{indent}cause: {step.cause}"), soft_wrap=True)
        if step.advice:
            console.print(styled(f"{indent}to do: {step.advice}"), soft_wrap=True)
    warnings = sum(step.status == "warning" for step in found.steps)
    console.print()
    if found.failed is not None:
        text = f"This connection fails at: {found.failed} (exit status {found.exit_code})"
        console.print(styled((text, "bold red")))
    elif warnings:
        console.print(styled((f"Clients can connect; {warnings} warnings", "yellow")))
    else:
        console.print(styled(("Clients can connect", "green")))


def _parts(step: Step) -> list[str | tuple[str, str]]:
    word, style = MARKS[step.status]
    took = "" if step.status == "skipped" else f"  ({step.seconds * 1000:.0f} ms)"
    target = f"{step.target}: " if step.target else ""
    return [
        (f"{word:<{STATUS_WIDTH}} ", style),
        (f"{step.kind:<{KIND_WIDTH}} ", "bold"),
        f"{target}{step.text}",
        (took, "dim"),
    ]
