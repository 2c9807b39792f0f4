# Start with "go run ./cmd/lockpick run" and "make test".
# .ci/README.md describes what each check proves and when it runs.

GO ?= go

.PHONY: build test setup lint race race-all cross cross-all simulation processes containers nightly canary broken broken-random random sweep engines hunts check-exhaustive fuzz scorecards bench bench-peers bench-locks release module adapters

build:
	CGO_ENABLED=0 $(GO) build -o bin/lockpick ./cmd/lockpick

# Installs what the tests need (as root or in CI), or prints what is missing.
# SETUP=0 changes nothing on the machine.
setup:
	@.ci/setup

# Installs pinned versions of lock libraries in other languages into .adapters; see harness/lock/exec/adapters.
adapters:
	@for set in node python python-old go java rust; do .ci/adapters $$set || [ $$? = 75 ] || exit 1; done

# Tests that need a container engine take minutes and run in "make containers". Tests run in parallel
# because they mostly wait for servers, clocks and signals. -short reduces the number of random cases;
# see .ci/README.md. With small heaps, test binaries would spend a third of their time on garbage
# collection, so GOGC lets the heaps grow.
test: setup
	$(GO) vet ./...
	GOGC=400 $(GO) test -vet=off -short -p 3 -parallel 4 ./...

# Runs staticcheck for the builds of all tags, and checks that go.mod is tidy.
# .ci/tools pins the versions of the tools. The first run takes minutes.
lint:
	$(GO) tool -modfile=.ci/tools/go.mod staticcheck -matrix ./... <.ci/tools/builds
	$(GO) mod tidy -diff

# The packages with goroutines whose tests the race detector slows down least.
# race-all tests all packages.
RACE = ./harness ./harness/client ./harness/lock/... ./harness/process ./harness/real ./harness/real/fuse \
	./harness/real/packets ./harness/real/proc ./harness/real/proxy ./harness/resp ./harness/sim/node ./internal/files ./redlock/... \
	./scenarios/campaign
race:
	CGO_ENABLED=1 $(GO) test -race -vet=off -short -parallel 4 $(RACE)

race-all:
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m ./...

# The simulation works on all systems; the other backends report why they don't. This target only
# type-checks for other systems; cross-all also compiles and links.
SYSTEMS = darwin/arm64 windows/amd64 linux/arm64
cross:
	cd .ci/tools && $(GO) run ./types ../.. $(SYSTEMS)

cross-all:
	@set -e; for t in $(SYSTEMS); do \
		echo "build and vet for $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build ./...; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./...; \
	done

# The longer tests are in files with a build tag: long (simulation, the checker's mutants, a
# browser), processes (real servers in real time), containers (a container engine), and nightly, which
# also makes the other tests more thorough. tagged runs only the tests in files with tag $(1), built
# with tags $(2), with timeout $(3) and additional flags $(4).
files = $(shell grep -rlE '^//go:build.*\b($(1))\b' --include=*_test.go .)
names = $(shell grep -hoE '^func Test[A-Za-z0-9]+' $(call files,$(1)) | sed 's/^func //')
space := $() $()
tagged = $(GO) test -tags '$(2)' -count=1 $(or $(4),-p 1) -timeout $(3) -v -run '^($(subst $(space),|,$(call names,$(1))))$$' $(sort $(dir $(call files,$(1))))

simulation:
	$(call tagged,long,long,20m,-p 2)

processes:
	$(call tagged,processes,processes,20m,-p 1 -parallel 4)

# The tests of package docker that need a container engine have no build tag.
containers:
	$(call tagged,containers,containers,20m)
	$(GO) test -count=1 -timeout 20m ./docker

# All thorough tests, which take hours. .ci/nightly runs this after the canary.
nightly:
	$(call tagged,long|processes|containers|nightly,long processes containers nightly,120m)
	$(GO) test -tags nightly -count=1 -p 1 -timeout 60m -skip '^($(subst $(space),|,$(call names,nightly)))$$' ./...
	$(MAKE) check-exhaustive sweep hunts fuzz race-all cross-all

# A broken lock must be detected; otherwise all other results are meaningless.
canary:
	$(GO) test -tags nightly -count=1 -timeout 10m -v -run '^TestCanary$$' ./cmd/lockpick

# For each broken lock, prints the scenario that detects it, the violation, and the seed.
broken:
	$(GO) test -tags long -count=1 -timeout 10m -v -run '^TestBrokenLocks$$' ./scenarios

# Tests the same locks with random fault plans, which are not tailored to the mistakes. Takes some minutes.
broken-random:
	$(GO) test -tags 'long nightly' -count=1 -timeout 40m -v -run '^TestBrokenLocksUnderRandomPlans$$' ./cmd/lockpick

# Tests the reference lock with ten thousand random plans within its assumptions, which must find no
# violation. Takes ten minutes on two cores; "make random SEEDS=1000" takes one.
# PLANS=random-within-assumptions runs this number of plans for each variant.
SEEDS ?= 10000
PLANS ?= random-within-assumptions/
random: build
	bin/lockpick run $(PLANS) --seeds $(SEEDS)

# The nightly version runs ten times as many plans, in shards as on several machines.
SHARDS ?= 8
sweep: build
	rm -rf artifacts/sweep
	for k in $$(seq $(SHARDS)); do bin/lockpick run $(PLANS) --seeds 100000 --shard $$k/$(SHARDS) --store artifacts/sweep || exit; done
	bin/lockpick merge artifacts/sweep

# Runs a sweep with Slurm, which the test starts and which requires root. Part of the nightly run.
engines:
	$(GO) test -tags nightly -count=1 -timeout 60m -v -run '^TestSlurm$$' ./scenarios/campaign

# Tests each lock with new seeds and with earlier findings; HUNT=10m sets the time per lock.
HUNT ?= 5m
hunts: build
	@.ci/hunts $(HUNT)

# Compares the lease checker with porcupine on all 7.5 million histories of two sessions, and on two
# million random ones. Takes some minutes. The quick tests check every 331st history, and 10,000
# random ones.
check-exhaustive:
	$(GO) test -tags exhaustive -count=1 -timeout 30m -v -run 'Exhaustively|Against' ./checker/...

# Fuzzes each parser of untrusted files for a minute. "go test" accepts one fuzz target per call.
FUZZ ?= 60s
fuzz:
	@set -e; grep -rEo --include=*_test.go '^func Fuzz[A-Za-z]+' . | sed 's|/[^/]*:func | |' | while read dir name; do \
		echo "$$name in $$dir"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZ) -fuzzminimizetime 1s $$dir; \
	done

# Writes the scorecards of all locks from real runs to reports/scorecards/, which takes hours on an idle
# machine. For some of them only: .ci/scorecards etcd redsync
scorecards:
	@.ci/scorecards

bench:
	GODEBUG=adaptivestackstart=1 $(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) bench-peers bench-locks

# Compares the checker with porcupine on the same histories of up to ten million operations (Linux only;
# takes up to an hour and 12 GB). To run a part of it:
# make bench-peers SIZES=1k,100k KEYS=1 UNKNOWN=0,5 VERDICTS=violated
bench-peers:
	$(GO) test -tags bench -count=1 -timeout 6h -v -run '^TestCompareWithPeers$$' ./checker

# Compares the lock with others on five Redis servers: many keys, one key, a stopped node, and the cost
# of durability (Linux only; takes some minutes). To run a part of it:
# make bench-locks LOCKS='-run TestCompareLocks$$ -at 512 -only wire,redsync -reps 3 -for 200ms'
LOCKS ?= -run TestCompareLocks
bench-locks:
	$(GO) test -tags bench -count=1 -timeout 1h -v ./redlock/wire $(LOCKS)

# Writes reproducible archives of static binaries for all systems, with licenses and checksums, to dist/.
release:
	@GO="$(GO)" .ci/release

# make module PATH=example.org/you/lockpick renames the module, in order to publish it.
# This overrides the search path for commands, which is restored here. MODULE= avoids the conflict.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell /usr/bin/tr '\0' '\n' </proc/$$PPID/environ | /bin/sed -n 's/^PATH=//p')
endif
module:
	@.ci/module "$(MODULE)"
