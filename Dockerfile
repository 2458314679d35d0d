# --target manager (the operator), --target agent (injected into worker Pods), --target outbox-relay (docs/guides/outbox.md).
# Cross-compiled, not emulated: docker buildx build --platform linux/amd64,linux/arm64 --target manager .
ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api/ api/
COPY cmd/ cmd/
COPY internal/ internal/
ARG TARGETOS TARGETARCH VERSION=dev
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
RUN --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -ldflags="-s -w -X main.version=${VERSION}" -o /out/ ./cmd/manager ./cmd/agent

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build-worker
WORKDIR /src/worker
COPY worker/go.mod worker/go.sum ./
RUN go mod download
COPY worker/ ./
ARG TARGETOS TARGETARCH VERSION=dev
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
RUN --mount=type=cache,target=/root/.cache/go-build \
    GOOS=${TARGETOS} GOARCH=${TARGETARCH} go build -ldflags="-s -w -X main.version=${VERSION}" -o /out/ ./cmd/outbox-relay

FROM scratch AS outbox-relay
COPY --from=build-worker /out/outbox-relay /outbox-relay
USER 65532:65532
ENTRYPOINT ["/outbox-relay"]

FROM scratch AS agent
COPY --from=build /out/agent /agent
USER 65532:65532
ENTRYPOINT ["/agent"]

FROM scratch AS manager
COPY --from=build /out/manager /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
