# Every verb is the command CI runs; the scripts behind them are in .ci/.

VERSION := $(or $(shell git describe --tags --dirty 2>/dev/null),devel)
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null)
CLI     := github.com/parley-mesh/parley/internal/cli
LDFLAGS := -s -w -X $(CLI).version=$(VERSION) -X $(CLI).commit=$(COMMIT)

.PHONY: demo run build test lint bench profile kit interop fuzz generate tools

demo: build ## real calls between sample agents of three SDKs
	go build -o bin/demo ./examples/demo
	@bin/demo --parley bin/parley

run: build ## the same, and the mesh stays up
	go build -o bin/demo ./examples/demo
	@bin/demo --parley bin/parley --keep

build: ## the product: bin/parley
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/parley ./cmd/parley

test: tools ## everything, with the race detector; installs what tests need
	.ci/test

lint: tools ## formatting, vet and the analyzers of tools/lint
	.ci/lint

bench: build ## figures for docs/benchmarks.md
	go run ./cmd/parley-bench

profile: build ## what guides the compiler: cmd/parley/default.pgo, from a busy mesh
	go run ./cmd/parley-bench -only unary-64 -duration 20s -profile cmd/parley/default.pgo

kit: ## the A2A project's own test kit, a copy of which is in KIT; PYTHON has its requirements
	go run ./interop/kit -kit '$(KIT)' -python '$(or $(PYTHON),python3)' -part all

interop: ## every pairing of SDKs, versions and bindings: docs/interop.md
	go test ./interop -run '^(TestMatrix|TestPush)$$' -count=1 -timeout 60m -matrix

fuzz: ## every fuzz target for FUZZTIME each (default 10s)
	.ci/fuzz

generate: ## write every generated file anew
	go test ./internal/rules -run '^TestGenerated$$' -count=1 -update
	go test ./internal/conformance -run '^(TestConformance|TestTranscripts)$$' -count=1 -update

tools:
	cd tools && go build -o ../bin/ ./lint ./testsum
