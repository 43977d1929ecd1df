# Engine Gateway. Runs as an ordinary user on a read-only root file system: only /data is written to
# (docker run --read-only --tmpfs /tmp -v engine-gateway:/data).
# No "syntax" line: the build uses the Dockerfile frontend of the builder itself and pulls no other one.

# The digest is that of the tag's index, for all platforms; a tag alone may point to another image tomorrow. Change tag and
# digest together: docker buildx imagetools inspect node:26.10.0-slim. A mirror: --build-arg BASE=mirror.example/node@sha256:…
ARG BASE=node:26.10.0-slim@sha256:ec7758ee051e457b468b32bde57b0879010b325bb9862718e9615225ce4aaae1

FROM ${BASE} AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --ignore-scripts --no-audit --no-fund
# The program is a bundle; what it holds is not needed a second time.
COPY scripts/pruneModules.ts scripts/lockedPackages.ts scripts/serverExternals.ts scripts/
RUN node scripts/pruneModules.ts

FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY scripts scripts
COPY src src
RUN node scripts/buildUi.ts && node scripts/buildServer.ts

FROM ${BASE}
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
COPY manifests/image/gateway.yaml /etc/engine-gateway/gateway.yaml
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
ENTRYPOINT ["node", "--max-semi-space-size=16", "--heap-growing-percent=25", "--memory-reducer-delay-ms=500", "--gc-memory-reducer-start-delay-ms=500", "/app/dist/server/main.js"]
# The file says that nobody has to log in; mount another one in its place to change that (docs/authentication.md).
CMD ["serve", "--config", "/etc/engine-gateway/gateway.yaml"]
