"""MIT Kerberos for tests: a local KDC, with its own realm in its own folder."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from tests.broker.cluster import HOST, free_ports
from tests.harness.processes import guarded, output
from tests.waiting import PROGRAM_S

REALM = "TEST.KAFKA"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
CONF = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = {host}:{port}
 }}
"""
KDC_CONF = """\
[realms]
 {realm} = {{
  kdc_listen = {host}:{port}
  kdc_tcp_listen = {host}:{port}
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
"""


def missing() -> str | None:
    """Return why Kerberos isn't possible here, or None."""
    path = _path()
    absent = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
    return None if importlib.util.find_spec("gssapi") else "the package gssapi isn't installed"


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class Kdc:
    """A context manager. Programs that use it need `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        [self.port] = free_ports(1)
        self.conf = folder / "krb5.conf"
        kdc_conf = folder / "kdc.conf"
        values = {"realm": REALM, "host": HOST, "port": self.port, "folder": folder}
        self.conf.write_text(CONF.format(**values))
        kdc_conf.write_text(KDC_CONF.format(**values))
        self.environment = {"KRB5_CONFIG": str(self.conf), "KRB5_KDC_PROFILE": str(kdc_conf)}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Kdc:
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of the database")
        program = shutil.which("krb5kdc", path=_path()) or "krb5kdc"
        self._process = subprocess.Popen(
            guarded(program, "-n", "-r", REALM),
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return self

    def __exit__(self, *exc: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PROGRAM_S)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of Kerberos' programs, which must succeed."""
        found = shutil.which(program, path=_path()) or program
        output(found, *arguments, env={**os.environ, **self.environment})

    def keytab(self, principal: str) -> Path:
        """Create a principal, and return the file with its keys."""
        path = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {path} {principal}")
        return path
