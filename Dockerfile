# syntax=docker/dockerfile:1

# The broker with its console and metrics, and the ottla command, in about 95 MB on top of the Python base image.
FROM python:3.13.7-slim-trixie AS build

WORKDIR /src
# A virtual environment moves between stages as it is; without pip it holds nothing that is not run. What goes into it,
# and into the one that makes the wheel, is known by hash: see locks/make.py.
COPY locks/build.txt locks/image.txt locks/
RUN python -m venv --without-pip /opt/ottla \
    && python -m pip --python /opt/ottla/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r locks/image.txt \
    && python -m venv /opt/build \
    && python -m pip --python /opt/build/bin/python install --no-cache-dir --disable-pip-version-check --require-hashes -r locks/build.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY protocol protocol
COPY broker broker
COPY clients clients
COPY observe observe
COPY workbench workbench
COPY testing testing
COPY cli cli
COPY docs cli/docs
COPY pipeline pipeline
RUN python -m pip --python /opt/build/bin/python wheel --disable-pip-version-check --no-deps --no-build-isolation -w /opt/build . \
    && python -m pip --python /opt/ottla/bin/python install --no-cache-dir --disable-pip-version-check --no-deps /opt/build/*.whl


FROM python:3.13.7-slim-trixie

LABEL org.opencontainers.image.title="Ottla" \
      org.opencontainers.image.description="A broker for Kafka consumer groups, in Python asyncio" \
      org.opencontainers.image.licenses="Apache-2.0"

RUN groupadd --system --gid 10001 ottla \
    && useradd --system --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin ottla \
    && install --directory --owner=10001 --group=10001 /var/lib/ottla
COPY --from=build /opt/ottla /opt/ottla
# pip has compiled what it installed. The base image has no bytecode, and the user below may not write any: without this
# every start would compile the standard library.
RUN /opt/ottla/bin/python -c "import uvloop, ottla.broker.app, ottla.broker.storage.local.engine, ottla.cli.serve, \
    ottla.cli.topics, ottla.clients, ottla.observe.http.server, ottla.observe.observatory"

# Settings have Kafka's names; any of them can be given as an environment variable in this way. Clients outside the
# container's network need OTTLA_ADVERTISED_LISTENERS too, e.g. PLAINTEXT://localhost:9092 with --publish 9092:9092.
#
# A container is reached from outside or not at all, so it listens on all of its interfaces, and OTTLA_INSECURE permits
# that although there is no authentication: whoever reaches the port may do everything. Let that be a network you trust,
# and publish to this machine alone where that is enough: --publish 127.0.0.1:9092:9092.
ENV PATH=/opt/ottla/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    OTTLA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    OTTLA_INSECURE=true \
    OTTLA_LOG_DIRS=/var/lib/ottla

# By number, so that `runAsNonRoot` can be checked.
USER 10001:10001
WORKDIR /var/lib/ottla
VOLUME /var/lib/ottla
EXPOSE 9092

# Healthy is a broker that answers a request, not only one that listens.
HEALTHCHECK --interval=5s --timeout=5s --start-period=30s --retries=3 \
    CMD ["ottla", "topics", "list", "--bootstrap-server", "127.0.0.1:9092", "--format", "json"]

ENTRYPOINT ["ottla"]
CMD ["serve"]
