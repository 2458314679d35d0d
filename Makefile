# Leasehold. `make help` lists the targets; `make demo` and `make test` are the two to begin with.
ifeq ($(filter oneshell,$(.FEATURES)),)
$(error GNU make 4 is needed)
endif
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# By another name, `make -n` prints a recipe that uses it, and does not run the whole of it.
SUBMAKE := $(MAKE)
# No target is a file.
.PHONY: $(shell sed -nE 's/^([a-z0-9 -]+):.*/\1/p' $(firstword $(MAKEFILE_LIST)))

# The same flags for every build, so that all targets, clones and CI share one build cache.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
MANAGER_IMAGE ?= ghcr.io/leasehold-io/manager:dev
AGENT_IMAGE ?= ghcr.io/leasehold-io/agent:dev
RELAY_IMAGE ?= ghcr.io/leasehold-io/outbox-relay:dev
CONTAINER_TOOL ?= $(shell command -v docker || command -v podman)
GOARCH ?= $(shell go env GOARCH)
CLUSTER ?= local
NAMESPACE ?= leasehold-system
HELM_ARGS ?=
export MANAGER_IMAGE AGENT_IMAGE RELAY_IMAGE CLUSTER

BIN := bin
LOCALCLUSTER := go run ./hack/localcluster
# Directory of helm, kubectl, etcd, kube-apiserver: built from Go modules once, outside the checkout.
K8S_BIN = $$($(LOCALCLUSTER) binaries $(1))
LINT = $$(hack/tools/tool golangci-lint-kube-api-linter)
# Kubelets and network namespaces need root on Linux.
CAN_RUN_NODES = [[ $$(id -u) == 0 && $$(uname -s) == Linux ]]
# Runs go test, says at the end what failed and why, and leaves every result in bin/tests-NAME.json.
GOTEST = $$($(CURDIR)/hack/tools/tool gotestsum) --no-color --format-hide-empty-pkg --hide-summary=skipped --jsonfile $(CURDIR)/$(BIN)/tests-$(1).json

##@ Begin

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: ## Three short stories on a real cluster; CLUSTER=local (default), kind or current
	@echo "Compiling the demo, which takes a few minutes if Go has never compiled its parts"
	go run ./test/demo

demo-images-local demo-images-kind: images
demo-images-current: docker-build

##@ Develop

generate: ## Regenerate deepcopy code, CRDs, RBAC, chart templates and docs
	gen=$$(hack/tools/tool controller-gen)
	"$$gen" object paths=./api/...
	"$$gen" crd:generateEmbeddedObjectMeta=true paths=./api/... output:crd:dir=config/crd/bases
	"$$gen" rbac:roleName=leasehold-manager paths=./internal/... output:rbac:dir=config/rbac
	go run ./hack/crdtrim config/crd/bases/*.yaml
	go run ./hack/chart generate
	go generate ./api/... ./internal/...
	go run ./hack/apidoc config/crd/bases/*.yaml > docs/api.md.tmp
	mv docs/api.md.tmp docs/api.md

fmt: ## Format the Go code
	$(LINT) fmt

lint: ## golangci-lint: formatting, govet, the import law, the Kubernetes API linter
	lint=$(LINT)
	for module in . worker worker/guard/kubernetes; do (cd $$module && "$$lint" run ./...); done
	bash -n hack/tools/tool .ci/run

manifests: ## Lint and render the chart, build config/, and compare the two
	@mkdir -p $(BIN)
	k8s=$(call K8S_BIN,helm kubectl)
	export PATH="$$k8s:$$PATH"
	helm lint --strict charts/leasehold
	render() { helm template leasehold charts/leasehold --namespace leasehold-system --kube-version 1.31.0 "$$@"; }
	render > $(BIN)/helm.yaml
	kubectl kustomize config/default > $(BIN)/kustomize.yaml
	go run ./hack/chart compare $(BIN)/helm.yaml $(BIN)/kustomize.yaml
	for values in charts/leasehold/ci/*-values.yaml; do helm lint --strict charts/leasehold --values "$$values"; done
	render --values charts/leasehold/ci/nats-values.yaml --show-only templates/outbox-relay.yaml > $(BIN)/helm-relay.yaml
	kubectl kustomize config/outbox-relay > $(BIN)/kustomize-relay.yaml
	go run ./hack/chart compare $(BIN)/helm-relay.yaml $(BIN)/kustomize-relay.yaml
	echo "The chart and config/ describe the same objects"

verify: generate lint manifests ## Everything a change must pass besides the tests; fails on any uncommitted or untracked file
	@if ! git rev-parse --git-dir >/dev/null 2>&1; then echo "SKIP: not a git checkout, cannot look for differences"; exit 0; fi
	changed=$$(git status --porcelain --untracked-files=all)
	if [[ -n $$changed ]]; then
	  git --no-pager diff | head -200
	  printf '%s\n' "These files differ from the commit or are not in it (run make generate and commit):" "$$changed"
	  exit 1
	fi
	echo "The tree is clean"

##@ Test

test: ## All tests: unit, the tests of the tests, stores, real API server, end to end
	@$(SUBMAKE) test-unit selftest test-worker
	if $(CAN_RUN_NODES); then $(SUBMAKE) images; $(LOCALCLUSTER) binaries >/dev/null; fi
	$(SUBMAKE) -j2 test-api test-e2e # side by side, because most of their time is waiting
	$(SUBMAKE) cases

test-unit: ## Unit tests; with a C compiler also the race detector on the packages that are cheap to build with it
	@mkdir -p $(BIN)
	$(call GOTEST,unit) -- $$(go list ./... | grep -vE '/test/(api|e2e|faults)$$')
	if command -v "$$(go env CC)" >/dev/null; then
	  CGO_ENABLED=1 go test -race $$(go list ./internal/... | grep -E '/internal/(fencing|agent|controller/plan)' | grep -v '/verify$$')
	else
	  echo "SKIP: the race detector needs a C compiler"
	fi

faults: ## Half an hour of random faults on the local cluster, judged by the independent checker; needs root on Linux
	go run ./test/faults/run -duration 30m -tasks 200 -in-flight 12 -report $(BIN)/faults.md

takeover: ## How long it takes to replace a dead worker, a lost node's, and one that failed; needs root on Linux
	go run ./test/faults/takeover -samples 50 -report $(BIN)/takeover.md

ingress: images ## Ten times the tasks that a queue takes: what becomes of them, drawn into docs/img; needs root on Linux
	go run ./test/bench/ingress/run -figures docs/img

outage: images ## A gateway fails sixty tasks at once: how their retries are spread, drawn into docs/img; needs root on Linux
	go run ./test/bench/outage/run -tasks 60 -figures docs/img

selftest: ## Test the tests: the simulator finds each deliberate bug
	@mkdir -p $(BIN)
	$(call GOTEST,selftest) --format testname -- -tags deliberatebugs -run TestEveryDeliberateBugIsFound -count=1 ./internal/simulator

test-worker: ## Tests of the worker modules with real stores: PostgreSQL, Redis, S3, NATS, API server
	@mkdir -p $(BIN)
	KUBEBUILDER_ASSETS=$(call K8S_BIN,etcd kube-apiserver kubectl)
	export KUBEBUILDER_ASSETS
	(cd worker && $(call GOTEST,worker) -- -timeout 15m ./...)
	(cd worker/guard/kubernetes && $(call GOTEST,worker-kubernetes) -- -timeout 15m ./...)

test-api: ## Tests against a real API server and etcd
	@mkdir -p $(BIN)
	KUBEBUILDER_ASSETS=$(call K8S_BIN,etcd kube-apiserver kubectl)
	export KUBEBUILDER_ASSETS
	$(call GOTEST,api) -- -timeout 30m -parallel 8 ./test/api/...

test-e2e: ## End-to-end tests on the local two-node cluster; needs root on Linux
	@rm -f $(BIN)/tests-e2e.json
	if ! $(CAN_RUN_NODES); then
	  echo "SKIP: test-e2e starts kubelets and network namespaces, which needs root on Linux (you are $$(id -un) on $$(uname -s))"
	else
	  $(SUBMAKE) images
	  $(LOCALCLUSTER) binaries >/dev/null
	  $(call GOTEST,e2e) --format testname -- -p 1 ./test/e2e ./test/faults -timeout 40m -parallel 6
	fi

cases: ## Check that every test that docs/cases.md names has run and passed, after make test
	@if [[ ! -e $(BIN)/tests-e2e.json ]]; then echo "SKIP: cases needs the end-to-end tests to have run"; exit 0; fi
	go run ./hack/casecheck docs/cases.md $(BIN)/tests-*.json

##@ Build

build: ## Build the static binaries for linux/GOARCH into bin/
	export GOOS=linux GOARCH=$(GOARCH)
	go build -ldflags='-s -w -X main.version=$(VERSION)' -o $(BIN)/ ./cmd/...
	go build -C worker -ldflags='-s -w -X main.version=$(VERSION)' -o $(CURDIR)/$(BIN)/ ./cmd/...

images: build ## Pack the binaries as image archives bin/*.tar; needs no Docker
	go run ./hack/image -o $(BIN)/manager.tar -tag $(MANAGER_IMAGE) -bin $(BIN)/manager=/manager -entrypoint /manager -user 65532:65532
	go run ./hack/image -o $(BIN)/agent.tar -tag $(AGENT_IMAGE) -bin $(BIN)/agent=/agent -entrypoint /agent -user 65532:65532
	go run ./hack/image -o $(BIN)/outbox-relay.tar -tag $(RELAY_IMAGE) -bin $(BIN)/outbox-relay=/outbox-relay -entrypoint /outbox-relay -user 65532:65532

docker-build: ## Build the images with Docker or Podman
	@[[ -n "$(CONTAINER_TOOL)" ]] || { echo "docker-build needs Docker or Podman; make images needs neither" >&2; exit 1; }
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --target manager -t $(MANAGER_IMAGE) .
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --target agent -t $(AGENT_IMAGE) .
	$(CONTAINER_TOOL) build --build-arg VERSION=$(VERSION) --target outbox-relay -t $(RELAY_IMAGE) .

##@ Clusters

cluster-up: ## Start the local two-node cluster (root on Linux)
	$(LOCALCLUSTER) up

cluster-down: ## Stop the local cluster and remove all that it made
	$(LOCALCLUSTER) down

install: ## Install the CRDs alone into the current context
	k8s=$(call K8S_BIN,kubectl)
	"$$k8s/kubectl" apply --server-side -k config/crd

deploy: ## Install or upgrade the chart in the current context
	k8s=$(call K8S_BIN,helm)
	"$$k8s/helm" upgrade --install leasehold charts/leasehold --namespace $(NAMESPACE) --create-namespace --wait \
	  --set image.repository=$(call repository,$(MANAGER_IMAGE)) --set image.tag=$(call tag,$(MANAGER_IMAGE)) \
	  --set agent.image.repository=$(call repository,$(AGENT_IMAGE)) --set agent.image.tag=$(call tag,$(AGENT_IMAGE)) \
	  --set outboxRelay.image.repository=$(call repository,$(RELAY_IMAGE)) --set outboxRelay.image.tag=$(call tag,$(RELAY_IMAGE)) $(HELM_ARGS)

# registry:5000/name:tag -> registry:5000/name and tag
tag = $(lastword $(subst :, ,$(1)))
repository = $(patsubst %:$(call tag,$(1)),%,$(1))

clean: ## Remove bin/; caches outside the checkout stay
	rm -rf $(BIN)
