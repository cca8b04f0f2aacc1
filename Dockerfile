# Serves the notes of a folder over MCP, with their web page at /ui/:
#   docker build -t mdrecall .
#   docker run --rm --user "$(id -u)" -e MDRECALL_TOKEN="$(openssl rand -hex 32)" \
#       -p 127.0.0.1:8377:8377 -v "$PWD:/notes" mdrecall
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY mdrecall mdrecall
RUN python -m venv /opt/mdrecall && /opt/mdrecall/bin/pip install --no-cache-dir '.[mcp,ui]'

FROM python:3.13-slim
COPY --from=build /opt/mdrecall /opt/mdrecall
# /state is open to any user, because --user says whose notes they are; the index in it can be made again.
RUN useradd --uid 1000 --no-create-home mdrecall && mkdir /notes && install -d -m 1777 /state
ENV PATH=/opt/mdrecall/bin:$PATH HOME=/state MDRECALL_STATE_DIR=/state/mdrecall
USER 1000
WORKDIR /notes
VOLUME ["/notes", "/state"]
EXPOSE 8377
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8377/healthz', timeout=5)"]
ENTRYPOINT ["mdrecall"]
CMD ["mcp", "serve", "--ui", "--workspace", "/notes", "--host", "0.0.0.0"]
