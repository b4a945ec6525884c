"""Clients that mean no good: `python -m bench.attackers PORT silent=300 dripping=300 slow_readers=50 logins=8`, until it is ended.

- silent: connections that never send a byte;
- dripping: a byte a second, half of them of a header, half of a body;
- slow_readers: take a file of 1.5 MB at 100 bytes a second;
- logins: loops of wrong passwords for one account, one after the other without a pause.

It prints `ready` once all connections stand.
"""

from __future__ import annotations

import asyncio
import http.client
import re
import socket
import sys
import threading
from urllib.parse import urlencode

LARGE = "/static/drf_spectacular_sidecar/swagger-ui-dist/swagger-ui-bundle.js"


async def silent(port: int) -> None:
    await asyncio.open_connection("127.0.0.1", port)
    await asyncio.Event().wait()


async def dripping(port: int, number: int) -> None:
    """Begins anew whenever the server ends it."""
    head = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n"
    while True:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + (b"\r\n" if number % 2 else b""))
        try:
            while not writer.is_closing():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(1)
        except OSError:
            await asyncio.sleep(1)


async def slow_reader(port: int) -> None:
    while True:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        one.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(one, ("127.0.0.1", port))
            await loop.sock_sendall(one, f"GET {LARGE} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            while await loop.sock_recv(one, 100):  # noqa: ASYNC110 - the pace is the point
                await asyncio.sleep(1)
        except OSError:
            await asyncio.sleep(1)
        finally:
            one.close()


def logins(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        try:
            connection.request("GET", "/login/", headers={"Host": "localhost"})
            page = connection.getresponse()
            token = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page.read().decode())
            cookie = (page.getheader("Set-Cookie") or "").partition(";")[0]
            form = {"csrfmiddlewaretoken": token[1] if token else "", "username": "root", "password": "wrong"}
            headers = {
                "Host": "localhost", "Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded",
            }  # fmt: skip
            while True:
                connection.request("POST", "/login/", urlencode(form), headers)
                connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()


async def main(port: int, counts: dict[str, int]) -> None:
    tasks = [asyncio.create_task(silent(port)) for _ in range(counts.get("silent", 0))]
    tasks += [asyncio.create_task(dripping(port, number)) for number in range(counts.get("dripping", 0))]
    tasks += [asyncio.create_task(slow_reader(port)) for _ in range(counts.get("slow_readers", 0))]
    for _ in range(counts.get("logins", 0)):
        threading.Thread(target=logins, args=[port], daemon=True).start()
    await asyncio.sleep(1)
    print("ready", flush=True)
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(
        main(int(sys.argv[1]), {name: int(count) for name, count in (one.split("=") for one in sys.argv[2:])})
    )
