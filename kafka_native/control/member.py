"""Who this client is in its consumer group.

Thread: the control thread only; the membership writes it, whoever speaks to the coordinator reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_GENERATION = -1
"""Of somebody who is no member: a commit says that it comes from nobody in particular."""


@dataclass(slots=True)
class Member:
    """One member. Without a subscription it stays as it is made: such a client commits as nobody in particular."""

    group_id: str
    instance_id: str | None = None
    protocol: str = "classic"
    """``classic`` or ``consumer`` (KIP-848): group.protocol."""
    member_id: str = ""
    generation: int = NO_GENERATION
    """The group's generation; in the consumer protocol the member's epoch."""

    @property
    def joined(self) -> bool:
        """Whether the coordinator knows it as a member of its generation."""
        return self.generation > 0
