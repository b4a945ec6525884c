"""Becomes the reverse proxy at the port, which is Caddy with portal/Caddyfile: `python -m portal.proxy`.

The proxy's environment holds its own settings (HOST, PORT, WEB_SOCKET, TRUSTED_PROXIES) and no secret of the portal.
"""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
from pathlib import Path

from portal.embedded.spawn import die_with_parent

CADDYFILE = Path(__file__).with_name("Caddyfile")
SETTINGS = ("HOST", "PORT", "WEB_SOCKET", "TRUSTED_PROXIES")
COMMAND = ("caddy", "run", "--config", str(CADDYFILE), "--adapter", "caddyfile")


def environment() -> dict[str, str]:
    """What Caddy gets of this process's environment. Its storage, in which it only ever looks for certificates to renew, lies beside
    the web's socket."""
    own = {name: value for name in SETTINGS if (value := os.environ.get(name))}
    own["TRUSTED_PROXIES"] = own.get("TRUSTED_PROXIES", "").replace(",", " ")
    folder = Path(own.get("WEB_SOCKET", ".portal/web.sock")).parent
    return own | {"HOME": str(folder.absolute())}


def main() -> None:
    # It starts no command as another user, as the web does (portal/embedded/spawn.py), and so needs no second one. A change of
    # user takes back that the proxy ends with its parent.
    if os.getuid() != os.geteuid():
        os.setresgid(os.getegid(), os.getegid(), os.getegid())
        os.setresuid(os.geteuid(), os.geteuid(), os.geteuid())
        die_with_parent(signal.SIGTERM)
    caddy = Path(sysconfig.get_path("scripts")) / "caddy"
    try:
        os.execve(caddy, COMMAND, environment())
    except OSError as error:
        sys.exit(f"The proxy cannot be started: {caddy}: {error.strerror}.")


if __name__ == "__main__":
    main()
