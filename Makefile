# Two commands suffice: "go run ./cmd/lockpick run" and "make test".

GO ?= go

.PHONY: build test setup cross long containers broken broken-random random check-exhaustive bench bench-peers

build:
	CGO_ENABLED=0 $(GO) build -o bin/lockpick ./cmd/lockpick

# setup installs what tests need (as root or in CI), or names what is missing.
# SETUP=0 leaves the machine as it is.
setup:
	@.ci/setup

test: setup
	$(GO) vet ./...
	$(GO) test ./...

# The simulation works everywhere; elsewhere the other backends say why they don't.
cross:
	@set -e; for t in darwin/arm64 windows/amd64 linux/arm64; do \
		echo "build and vet for $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build ./...; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./...; \
	done

# The longer checks: the built binary, thousands of seeds, every scenario on real servers.
# Packages that have none are not tested again.
long:
	$(GO) test -tags long -count=1 -timeout 60m $$(grep -rlE '^//go:build.*\blong\b' --include=*_test.go . | xargs -n1 dirname | sort -u)

# The built binary on a Docker engine, after the longer checks: both want the machine.
containers:
	$(GO) test -tags 'long containers' -count=1 -timeout 30m -v -run '^(TestCatalogueOnDocker|TestInterruptedOnDocker|TestBackendsAgree)$$' ./cmd/lockpick

# Each lock with a mistake: by which scenario it is caught, as what, and with which seed.
broken:
	$(GO) test -tags long -count=1 -timeout 10m -v -run '^TestBrokenLocks$$' ./cmd/lockpick

# The same locks under random plans, which nobody has told what to look for: some minutes.
broken-random:
	$(GO) test -tags long -count=1 -timeout 20m -v -run '^TestBrokenLocksUnderRandomPlans$$' ./cmd/lockpick

# The reference lock under ten thousand random plans within its assumptions: no
# violation is to be found. Ten minutes on two cores; make random SEEDS=1000 is a tenth.
# PLANS=random-within-assumptions draws as many for each variant.
SEEDS ?= 10000
PLANS ?= random-within-assumptions/
random: build
	bin/lockpick run $(PLANS) --seeds $(SEEDS)

# Every history of two sessions of the lease against porcupine, seven and a half
# million, and one and a half million random ones: some minutes. The quick tests
# take each 83rd, and 50,000.
check-exhaustive:
	$(GO) test -tags exhaustive -count=1 -timeout 30m -v -run 'Exhaustively|Against' ./checker

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) bench-peers

# The checker beside porcupine on the same histories, up to ten million operations
# (Linux; up to an hour, and 12 GB). A part of it:
# make bench-peers SIZES=1k,100k KEYS=1 UNKNOWN=0,5 VERDICTS=violated
bench-peers:
	$(GO) test -tags bench -count=1 -timeout 6h -v -run '^TestBesidePeers$$' ./checker
