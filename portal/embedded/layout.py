"""Which folder holds what for one set of embedded services.

The *state* folder (`.portal/` of a project, or a folder given for a throwaway set) belongs to the caller: secrets,
locks, logs. The *home* holds the servers' data: the state folder itself for an ordinary user, a folder of its own
below the system folder for root, because the servers then run as another account.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from portal.embedded.account import PORTAL, SYSTEM_FOLDER, make_public_folder, system_account
from portal.embedded.errors import ServiceError

SECRETS = "services.json"
KEPT = "belongs-to"
THROWAWAY = "throwaway"
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_LIMIT = 107  # bytes in sockaddr_un, the ending zero included
ROOM_NEEDED = (
    300 * 1024 * 1024
)  # bytes: a new cluster is 40 MB, its log may grow to 64 MB before it is recycled


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one set; `account` is the (uid, gid) that owns the home, None for the caller."""

    account: tuple[int, int] | None
    state: Path
    logs: Path
    home: Path
    postgres: Path
    new_postgres: Path  # where a cluster is made before it takes its place
    valkey: Path
    valkey_configuration: Path
    sockets: Path

    @classmethod
    def of(cls, state: Path, account: tuple[int, int] | None) -> Layout:
        state = state.resolve()
        name = hashlib.sha256(os.fsencode(state)).hexdigest()[:12]
        home = SYSTEM_FOLDER / name if account else state
        sockets = home / "run"
        if len(os.fsencode(sockets / SOCKET_NAME)) >= SOCKET_PATH_LIMIT:
            sockets = Path("/tmp") / f"tool-portal-{os.geteuid()}-{name}"
        return cls(
            account=account,
            state=state,
            logs=state / "log",
            home=home,
            postgres=home / "postgres",
            new_postgres=home / "postgres.new",
            valkey=home / "valkey",
            valkey_configuration=home / "valkey.conf",
            sockets=sockets,
        )

    @property
    def _aside(self) -> Path:
        return self.home.with_name(f"{self.home.name}.old")

    def make(self, *, throwaway: bool = False) -> None:
        """Make what is missing, each folder closed to everyone else. Existing folders keep their mode.

        A home of root's says in a file whose it is: KEPT, or THROWAWAY where it may be swept away.
        """
        make_state(self.state)
        try:
            if self.account:
                make_public_folder(SYSTEM_FOLDER)
                self._set_aside_strangers_data()
                # Root's own, so that the servers' account can lay no link where root writes; what is closed lies in it.
                make_public_folder(self.home)
                mark, other = (THROWAWAY, KEPT) if throwaway else (KEPT, THROWAWAY)
                (self.home / other).unlink(missing_ok=True)
                # Renamed into its place whole: another start that sweeps must not read half of it.
                written = self.home / f".{mark}"
                written.write_text(str(self.state), encoding="utf-8")
                written.replace(self.home / mark)
            self.make_private(self.sockets)
            if self.account:
                self._let_the_portal_connect()
            self.make_private(self.valkey)
            self.logs.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise unwritable(Path(error.filename or self.home), error) from error
        for folder in (self.state, self.home):
            free = shutil.disk_usage(folder).free
            if free < ROOM_NEEDED and not (self.postgres / "PG_VERSION").exists():
                raise ServiceError(
                    f"The disk of {folder} is full: {free // 2**20} MB are free, and a new database needs "
                    f"{ROOM_NEEDED // 2**20} MB."
                )

    def remove(self) -> None:
        """Delete what the services made: data, secrets, logs. Nothing else in the state folder is touched, nor its
        lock files, because others may wait on them.
        """
        if self.account:
            shutil.rmtree(self.home, ignore_errors=True)
            shutil.rmtree(self._aside, ignore_errors=True)
        if self.sockets.parent != self.home:
            shutil.rmtree(self.sockets, ignore_errors=True)
        for folder in (self.postgres, self.new_postgres, self.valkey, self.sockets, self.logs):
            shutil.rmtree(folder, ignore_errors=True)
        for path in (self.valkey_configuration, self.state / SECRETS):
            path.unlink(missing_ok=True)

    def make_private(self, folder: Path) -> None:
        """A folder that only its owner may enter. One in /tmp could have been laid by a stranger, so all are checked."""
        try:
            folder.mkdir(mode=0o700)
            if self.account:
                os.chown(folder, *self.account)
        except FileExistsError:
            status = folder.lstat()
            owner = self.account[0] if self.account else os.geteuid()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != owner:
                raise ServiceError(
                    f"{folder} is not a folder of the account that runs the services."
                ) from None
            # Root's sockets are open to the group of the portal's account, which may pass and not list.
            if folder == self.sockets and status.st_mode & (0o067 if self.account else 0o077):
                raise ServiceError(
                    f"{folder} is open to other users; close it with: chmod 700 {folder}"
                ) from None

    def _let_the_portal_connect(self) -> None:
        # By its descriptor: in /tmp another folder could take its place between two calls.
        folder = os.open(self.sockets, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(folder, -1, system_account(PORTAL)[1])
            os.fchmod(folder, 0o710)
        finally:
            os.close(folder)

    def _set_aside_strangers_data(self) -> None:
        """A project that was deleted and cloned again at the same path has new secrets, which fit no old data."""
        if not self.postgres.exists() or (self.state / SECRETS).exists():
            return
        shutil.rmtree(self._aside, ignore_errors=True)
        self.home.rename(self._aside)


def make_state(state: Path) -> None:
    """Make the state folder, closed to other users; one that belongs to another user is refused."""
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(state, error) from error
    # Root could write there, and would then leave files in it that the owner cannot change.
    if (owner := state.stat().st_uid) != os.geteuid():
        raise ServiceError(
            f"{state} belongs to user {_name(owner)}: run this as that user, or use another folder."
        )
    if not os.access(state, os.W_OK):
        raise ServiceError(f"{state} cannot be written to.")


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def unwritable(path: Path, error: OSError) -> ServiceError:
    """The sentence for a path that could not be made or written."""
    if error.errno == errno.ENOSPC:
        return ServiceError(f"The disk of {path} is full.")
    return ServiceError(f"{path} cannot be written to: {error.strerror}.")


def lock(path: Path, *, shared: bool = False, wait: bool = True) -> IO[str]:
    """Wait for a lock on the file, and hold it until the file is closed or the process ends."""
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    return file


def try_lock(path: Path, *, shared: bool = False) -> IO[str] | None:
    """As `lock`, but None if others hold it."""
    try:
        return lock(path, shared=shared, wait=False)
    except BlockingIOError:
        return None
