# syntax=docker/dockerfile:1
# Engine Gateway. Runs as an ordinary user on a read-only root file system: only /data is written to
# (docker run --read-only --tmpfs /tmp -v engine-gateway:/data).

FROM node:26-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:26-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY scripts scripts
COPY src src
RUN node scripts/buildUi.ts && node scripts/buildServer.ts

FROM node:26-slim
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Engine Gateway" \
      org.opencontainers.image.description="Kubernetes operator and query gateway in front of many SQL engine clusters" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV NODE_ENV=production
COPY --from=dependencies /app/node_modules /app/node_modules
COPY package.json LICENSE /app/
COPY bin /app/bin
COPY --from=build /app/dist/server /app/dist/server
COPY --from=build /app/dist/ui /app/dist/ui
# The embedded database and waiting history: data/ of the working directory, which is the root.
RUN mkdir -p /data && chown 1000:1000 /data
WORKDIR /
USER 1000:1000
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["node", "/app/bin/healthcheck.js"]
# Garbage is collected when the heap has grown by a quarter, not only when it has doubled or more, so that a first sync of
# thousands of resources takes 250 MB, not 400 (docs/resources.md). A smaller young generation costs submissions CPU.
ENTRYPOINT ["node", "--max-semi-space-size=16", "--heap-growing-percent=25", "/app/dist/server/main.js"]
CMD ["serve"]
