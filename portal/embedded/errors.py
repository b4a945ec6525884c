"""The one error of the embedded services: a sentence for the person who typed the command."""

from __future__ import annotations


class ServiceError(Exception):
    """The embedded services cannot do what was asked; the message is one sentence for the operator.

    `exit_code` is what a command ends with: 4 where something the portal needs is missing, 2 where the command was
    used wrongly.
    """

    def __init__(self, sentence: str, *, exit_code: int = 4) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
