"""What an outside service raises that gave no usable answer."""

from __future__ import annotations


class ServiceError(Exception):
    """The service gave no usable answer. The message may name servers and accounts, so it is for those who run the portal.

    `permanent`: it would refuse the same request again, which says nothing against the service. `lasting`: the next call will fail
    too, as with a wrong key. `retry_after`: the seconds that the service asks to wait.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        lasting: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.lasting = lasting
        self.retry_after = retry_after

    @property
    def public(self) -> str:
        """What tenants may read of it."""
        return "The service refuses the portal." if self.lasting else "The service is not available."
