# Everything a contributor runs. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .cache/bin
LINTER := $(BIN)/golangci-lint
EACH := scripts/each-module.sh

# How long `make fuzz` stays at each target: a time (5m) or a number of inputs (20000x).
FUZZTIME ?= 1m
# Flags for every `go test`; .ci/run adds -count=1. Vetting is left to lint, which vets all modules.
GOTESTFLAGS ?=
# Which benchmarks `make bench-go` runs.
BENCH ?= .

.PHONY: run try demo gateway test check fmt fmt-check lint short unit race fuzz fuzz-smoke bench bench-go bench-gateway bench-test long \
	examples check-examples release module-path site systems test-api tidy-check deps tools clean help unit-servers

run: ## start the service with the example configuration
	scripts/build.sh
	go run ./cmd/stint serve --config examples/stint.yaml

try: ## the same without Go: from a release in dist, an installed stint, or a file (make try RELEASE=stint_v0.1.0_linux_amd64.tar.gz)
	scripts/try.sh $(if $(RELEASE),"$(RELEASE)")

demo: ## three nodes on one Redis with leases, load, one of them killed: does the limit hold? With their page, until Ctrl-C
	go -C examples run ./demo -stay 10m

gateway: ## start the gateway on https://127.0.0.1:8443 with a page, an upstream, a key and a list
	scripts/gateway.sh

test: deps fmt-check lint systems unit race unit-servers fuzz-smoke bench-test check-examples test-api tidy-check ## install what the tests need, then run all of them

# Tests wait for servers and clocks, so those of the examples run beside the others.
check: fmt-check lint ## format check, lint and short unit tests: before each commit
	$(MAKE) -j2 --output-sync=line short examples

fmt: $(LINTER) ## format all Go files
	$(LINTER) fmt

fmt-check: $(LINTER) ## fail if a Go file is not formatted
	$(LINTER) fmt --diff

# GOGC spends a gigabyte of memory to save a quarter of the time.
lint: $(LINTER) ## run the linters, go vet among them
	GOGC=400 $(EACH) $(CURDIR)/$(LINTER) run --config $(CURDIR)/.golangci.yml

# -short means smaller numbers in the same tests; nothing is skipped by it.
# Many wait for real servers, so more of them run at a time than there are processors.
short: ## unit tests of the root module with small numbers
	n=$$((2 * $$(getconf _NPROCESSORS_ONLN))); go test -short -vet=off -p $$n -parallel $$n $(GOTESTFLAGS) ./...

# The longest packages take six to eight minutes on two processors; a busy machine needs more than the usual ten.
unit: ## unit tests of the root module
	go test -vet=off -timeout 20m $(GOTESTFLAGS) ./...

unit-servers: ## the tests of store/redis on Redis 6.2, the oldest that is served, and on Valkey
	scripts/test-servers.sh $(GOTESTFLAGS)

# Without cmd/stint, whose tests start processes: what runs in these is tested in app, in one process.
race: ## unit tests under the race detector, with small numbers
	go test -race -short -vet=off -timeout 20m $(GOTESTFLAGS) $$(go list ./... | grep -v '/cmd/stint$$')
	go -C examples test -race -short -vet=off -timeout 20m $(GOTESTFLAGS) ./...

fuzz: ## fuzz each target, those of the gateway too, for FUZZTIME (make fuzz FUZZTIME=5m)
	scripts/fuzz.sh $(FUZZTIME)

fuzz-smoke: ## fuzz each target for a moment
	scripts/fuzz.sh 10000x

long: ## the long runs: 64 goroutines, 10^6 tries, 100 times, each algorithm; 8 nodes, 20 times; all modes under random faults; a flood of 15 million keys; 1,000 reloads of the gateway; a roll-out under full load; all files of a release, built twice
	go test -timeout 2h -run 'TestSuite/Contention' ./store/memory -args -storetest.rounds=100 -storetest.tries=1000000
	go test -timeout 2h -count=1 -v -run '^TestHammer$$' ./store/memcached -args -memcached.rounds=100 -memcached.tries=15625
	go test -timeout 1h -count=1 -v -run '^TestNodes$$' ./cmd/stint -args -nodes.rounds=20
	go test -timeout 4h -count=1 -v -run '^Test(RandomFaults|Divided|Alone)$$' ./fleet/sim -args -sim.histories=20000 -sim.takes=20000 -sim.seed=1000000
	go test -timeout 1h -count=1 -v -run '^TestFlood$$' ./facts -args -facts.long
	go -C gateway test -timeout 1h -count=1 -v ./proof -args -proof.long
	go -C gateway test -timeout 1h -count=1 -v -run '^TestReloads$$' ./limits -args -limits.long
	go -C examples test -timeout 1h -count=1 -v -run '^TestRollOut$$' . -args -rollout.callers=32
	go -C tools/release test -timeout 2h -count=1 -v . -args -release.long

release: ## build all files of a release into dist (make release VERSION=v0.1.0 [KEY=minisign.key])
	go -C tools/release run . -root "$(CURDIR)" -out "$(CURDIR)/dist" -version "$(VERSION)" $(if $(KEY),-key "$(if $(filter /%,$(KEY)),$(KEY),$(CURDIR)/$(KEY))")

# PATH= on the command line would hide the programs from every recipe, so it is read and put back: the
# environment of make itself still has the path of programs.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
SHELL := /bin/bash
override PATH := $(shell while IFS= read -r -d '' line; do case $$line in (PATH=*) echo "$${line:5}" ;; esac; done </proc/$$PPID/environ)
endif

module-path: ## move all modules to a path that others can import (make module-path PATH=github.com/you/stint)
	go -C tools/release run ./modulepath -root "$(CURDIR)" "$(MODULE)"

site: ## build the documentation as a static site into dist/site
	go -C tools/site run . -root "$(CURDIR)" -out "$(CURDIR)/dist/site"

bench: ## compare with the peers, all in one run, and write docs/benchmarks.md
	go -C bench run . -out ../docs/benchmarks.md -throttlecrab cargo

bench-go: ## Go's benchmarks beside the peers (make bench-go BENCH=HotKey)
	go -C bench test -run '^$$' -bench '$(BENCH)' -benchmem ./...

bench-gateway: ## CPU time of a request through the gateway beside bare Caddy and nginx
	go -C gateway test -count=1 -v -timeout 30m -run '^TestCPU$$' ./proof -args -proof.cpu=200000

bench-test: ## build the other modules and run their tests
	$(EACH) --but-root go test -vet=off -timeout 20m $(GOTESTFLAGS) ./...

systems: ## check that all code is valid on the other systems and widths that people build for
	go -C tools/release build -o $(CURDIR)/$(BIN)/systems ./systems
	$(EACH) --but-release $(CURDIR)/$(BIN)/systems windows/amd64 darwin/arm64 linux/386

# In short form: bench-test runs the same tests in full.
examples: check-examples ## compile and run the examples, and check their rule files
	go -C examples test -short -vet=off $(GOTESTFLAGS) ./...

check-examples:
	go run ./cmd/stint check examples/rules/*.yaml examples/catalog/*

test-api: ## run schemathesis with docs/openapi.yaml against a running server
	scripts/test-api.sh

tidy-check: ## fail if a go.mod or go.sum is not tidy
	$(EACH) --all go mod tidy -diff

deps: ## install what the tests need: Debian packages (as root), Python packages
	scripts/install-test-deps.sh

tools: $(LINTER) ## build the pinned tools into .cache/bin

$(LINTER): tools/go.mod tools/go.sum
	@echo "building golangci-lint; a few minutes, once"
	go -C tools build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

clean: ## remove built tools, virtual environments and downloads
	rm -rf .cache bin

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
