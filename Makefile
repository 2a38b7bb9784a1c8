# Run "make help" for the list of targets.

SHELL  := /bin/bash
TOOL   := go tool -modfile=$(CURDIR)/tools/go.mod
WITHDB := go run ./internal/pgtest/withdb
PGTEST := github.com/openlup/pgrail/internal/pgtest
# Modules of their own below this one.
NESTED := $(patsubst %/go.mod,%,$(wildcard examples/go.mod bench/go.mod faults/go.mod))

.DEFAULT_GOAL := help
.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

.PHONY: generate
generate: ## write internal/db and the catalogue's hashes anew from db/migrations and db/queries
	rm -f $(filter-out %_test.go,$(wildcard internal/db/*.go))
	$(TOOL) sqlc generate
	go generate ./catalogue

.PHONY: api
api: ## write api/ anew: what each package promises to applications
	go run ./internal/apidoc

.PHONY: test
test: ## run all tests with the race detector; needs no network
	@$(MAKE) --no-print-directory -k -j2 test-main test-nested

# Beside each other: the tests of faults/ wait for most of their time.
.PHONY: test-main test-nested
test-main:
	go test -race -count=1 -timeout=8m ./...
test-nested:
	@status=0; for dir in $(NESTED); do \
		(set -x; go test -C $$dir -race -count=1 -timeout=8m ./...) || status=1; done; exit $$status

# The packages whose tests have databases.
DATABASE_TESTS = $(shell go list -f '{{$$p := .ImportPath}}{{range .TestImports}}{{if eq . "$(PGTEST)"}}{{$$p}}{{"\n"}}{{end}}{{end}}{{range .XTestImports}}{{if eq . "$(PGTEST)"}}{{$$p}}{{"\n"}}{{end}}{{end}}' ./... | sort -u)

.PHONY: test-docker
test-docker: ## run the tests that have databases against a container of PGRAIL_TEST_IMAGE
	PGRAIL_TEST_SERVER=docker go test -count=1 -timeout=8m $(DATABASE_TESTS)

# Of these versions each is one that .ci/server-binaries finds or fetches.
VERSIONS ?= 14 15 16 17 18
MATRIX_PACKAGES ?= $(DATABASE_TESTS)

.PHONY: test-matrix
test-matrix: ## run the tests that have databases on servers of each version; VERSIONS="14 18" chooses
	.ci/test-matrix "$(VERSIONS)" $(MATRIX_PACKAGES)

.PHONY: soak
soak: ## deliver 200,000 events through 200 kills and 20 restarts, in some 12 minutes; KILLS, RESTARTS, SOAK_EVENTS change that
	go test -C faults -run '^TestSoak$$' -v -count=1 -timeout=25m . -kills=$(or $(KILLS),200) -restarts=$(or $(RESTARTS),20) -events=$(or $(SOAK_EVENTS),200000)

.PHONY: verify
verify: verify-generated verify-api verify-format verify-modules verify-code verify-queries ## check everything that tests do not

.PHONY: verify-generated
verify-generated: ## is internal/db what the SQL files give, nothing less or more?
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; \
	cp -R sqlc.yaml db "$$dir"; \
	$(TOOL) sqlc generate -f "$$dir/sqlc.yaml"; \
	diff -r -x '*_test.go' internal/db "$$dir/internal/db" || { echo 'internal/db is stale: run make generate'; exit 1; }

.PHONY: verify-api
verify-api: ## does api/ say what the packages declare?
	go run ./internal/apidoc -check

.PHONY: verify-format
verify-format: ## is all code formatted?
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "not formatted: $$files"; exit 1; }

.PHONY: verify-modules
verify-modules: ## do the go.mod files list what the code imports, and sums match?
	@set -e; for dir in . tools $(NESTED); do (set -x; go mod tidy -C $$dir -diff); done
	go mod verify

.PHONY: verify-code
verify-code: ## go vet and staticcheck
	@set -e; for dir in . $(NESTED); do (cd $$dir; set -x; go vet ./...; $(TOOL) staticcheck ./...); done

.PHONY: verify-queries
verify-queries: ## prepare every query on a server
	$(WITHDB) $(TOOL) sqlc vet

.PHONY: bench
bench: ## measure against River and against the targets; BENCH="-quick throughput" chooses
	go run -C bench . $(BENCH)

.PHONY: bench-smoke
bench-smoke: ## run every benchmark for a moment, so that none rots
	go run -C bench . -smoke

.PHONY: demo
demo: ## run the example application; EVENTS=file or - reads your own events, DATABASE_URL=... uses your own database
	@mkdir -p bin
	go build -o bin/withdb ./internal/pgtest/withdb
	go build -C examples -o ../bin/demo ./demo
	@exec $(if $(findstring command,$(origin DATABASE_URL)),,bin/withdb -empty) bin/demo "$${EVENTS:-examples/demo/events.jsonl}"
