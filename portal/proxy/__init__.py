"""The web's port: a reverse proxy that reads whole requests before a worker is taken, and keeps answers for slow readers.

Gunicorn's sync workers answer one request at a time and read it themselves, so that two silent connections would stop two
workers (RELIABILITY S19). The proxy holds any number of connections in one thread, asks the workers over a Unix socket only
for what has arrived whole, and starts and ends them: `python -m portal.proxy` is the web, in `make up` and in compose alike.
"""
