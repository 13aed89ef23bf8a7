# The worker, the admission server and the commands of Node Maintenance.
#
#   docker build --tag node-maintenance .
#
# BASE_IMAGE has glibc, libstdc++ and the certificates of public authorities, and no shell; its user 65532 has no name or that of distroless. `npm run
# image` builds the same image without a registry: it makes the base of Debian's packages, and gives the files of the stage "build" as a build context.
ARG BUILD_IMAGE=docker.io/library/node:24.9.0-bookworm-slim
ARG BASE_IMAGE=gcr.io/distroless/cc-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY . .
RUN npm ci --ignore-scripts && node scripts/image/application.ts /image/app \
  && mkdir -p /image/usr/local/bin && cp "$(command -v node)" /image/usr/local/bin/node

FROM ${BASE_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Node Maintenance" \
  org.opencontainers.image.description="Declarative, durable node maintenance for Kubernetes (KEP-4212) on Temporal" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image/ /
WORKDIR /app
# The heaps for a memory limit of 1 GiB (docs/how-to/temporal-production.md), compiled code, which makes the start faster, and a malloc that returns freed
# memory: by default, glibc keeps up to eight arenas for each core, and takes blocks of up to 32 MB from them.
ENV NODE_ENV=production \
  MALLOC_ARENA_MAX=2 \
  MALLOC_MMAP_THRESHOLD_=131072 \
  NODE_OPTIONS=--max-old-space-size=352 \
  NODE_COMPILE_CACHE=/app/.compiled \
  PATH=/usr/local/bin
USER 0:0
# Compiles the code for these options. Exits 1 if a file or a library is missing.
RUN ["node", "--max-semi-space-size=8", "--heap-growing-percent=20", "/app/worker/main.js", "--help"]
USER 65532:65532
EXPOSE 8080 9464 9443
ENTRYPOINT ["node", "--max-semi-space-size=8", "--heap-growing-percent=20", "/app/worker/main.js"]
