# One image for every process: docker-compose.yml says which one a container runs.

FROM node:24-bookworm-slim AS front-end
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM python:3.11-slim-bookworm
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless procps tini \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements/connect.lock requirements/
RUN pip install --require-hashes -r requirements/connect.lock
COPY . .
COPY --from=front-end /app/node_modules node_modules
RUN python -m dashboard.vendor \
    && rm -rf node_modules \
    && useradd --uid 10001 --home-dir /data rtmpweb \
    && mkdir -p /data /lake /recordings \
    && chown rtmpweb:rtmpweb /data /lake /recordings
USER rtmpweb
ENV RTMPWEB_DATA_DIR=/data RTMPWEB_LAKE=/lake RTMPWEB_RECORDINGS=/recordings RTMPWEB_HTTP=0.0.0.0:8000 RTMPWEB_RTMP=0.0.0.0:1935
VOLUME ["/data", "/lake", "/recordings"]
EXPOSE 8000 1935
# tini passes signals on and collects the children that Spark leaves behind.
ENTRYPOINT ["tini", "--"]
CMD ["python", "manage.py", "serve"]
