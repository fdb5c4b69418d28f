"""Controls of a sandbox that change nothing and record what they were told to do."""

from __future__ import annotations

__all__ = ["FakeControls"]


class FakeControls:
    """Every act takes effect."""

    def __init__(self) -> None:
        self.acts: list[str] = []

    def freeze(self) -> bool:
        self.acts.append("freeze")
        return True

    def resume(self) -> bool:
        self.acts.append("resume")
        return True

    def suspend_writes(self, alert: int) -> bool:
        self.acts.append(f"suspend-writes {alert}")
        return True

    def roll_back(self, restore: int | None) -> str | None:
        self.acts.append(f"roll-back {restore}")
        return None

    def note_restored(self, intervention: int) -> None:
        self.acts.append(f"restored {intervention}")

    def set_aside(self) -> str | None:
        self.acts.append("set-aside")
        return None
