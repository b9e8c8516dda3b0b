"""The processes of a run's members, and the facts of members' lives that they can't log."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

from tests.broker.chaos.history import FOREVER, Life
from tests.broker.chaos.member import Settings
from tests.harness.processes import Child

END_S = 40.0
"""The time from the command to leave to the end of a member."""


class Host(Child):
    """A process with members."""

    def __init__(self, first: Settings, output: Path) -> None:
        super().__init__("tests.broker.chaos.member", first, output)
        self.output = output
        self.members: list[Member] = []
        """Those that haven't ended."""
        self.is_new = True

    def join(self, settings: Settings, life: Life, protocol: str) -> Member:
        """Start a member. The first one has started together with the process."""
        if not self.is_new:
            self.send(f"join {json.dumps(asdict(settings))}")
        self.is_new = False
        self.members.append(Member(self, life, protocol))
        return self.members[-1]

    @property
    def takes_members(self) -> bool:
        """Return whether another member may join. A process ends with its last member."""
        stays = any(member.leaving is None for member in self.members)
        return stays and self.resume_at is None and self.code() is None

    def kill(self) -> None:
        super().kill()
        for member in list(self.members):
            member.end("killed")

    def stop(self, seconds: float) -> None:
        super().stop(seconds)
        for member in self.members:
            member.life.pauses.append((time.time(), FOREVER))

    def resume(self) -> None:
        if self.resume_at is not None:
            for member in self.members:
                member.life.pauses[-1] = (member.life.pauses[-1][0], time.time())
            super().resume()


class Member:
    """A member in a process."""

    def __init__(self, host: Host, life: Life, protocol: str) -> None:
        self.host, self.life, self.protocol = host, life, protocol
        self.busy_until = 0.0
        self.leaving: float | None = None
        """The time until which it has to end, once it has the command to leave."""

    def send(self, command: str) -> None:
        self.host.send(f"{self.life.name} {command}")

    def leave(self) -> None:
        self.send("leave")
        self.leaving = time.monotonic() + END_S

    def end(self, how: str) -> None:
        """End its life."""
        self.life.end(time.time(), how)
        self.host.members.remove(self)

    def ended(self) -> bool:
        """Return whether it has ended. If so, its life ends too."""
        if not self.life.alive:
            return True
        code = self.host.code()
        if code is not None:
            self.end("closed" if code == 0 and self.leaving is not None else "died")
        elif self.life.is_closed and len(self.host.members) > 1:
            self.end("closed")
        elif (
            self.leaving is not None
            and self.host.resume_at is None
            and time.monotonic() > self.leaving
        ):
            text = f"did not end in {END_S:g} s after the command to leave"
            self.life.errors.append((time.time(), text, True))
            self.host.kill()
        return not self.life.alive

    @property
    def free(self) -> bool:
        """Return whether a fault may hit it now."""
        return (
            self.life.alive
            and self.host.resume_at is None
            and self.leaving is None
            and time.monotonic() >= self.busy_until
        )
