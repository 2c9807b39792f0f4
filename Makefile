# Two commands suffice: "go run ./cmd/lockpick run" and "make test".
# What each check proves, and when it runs: .ci/README.md.

GO ?= go

.PHONY: build test setup lint race race-all cross cross-all simulation processes containers nightly canary broken broken-random random sweep engines hunts check-exhaustive fuzz scorecards bench bench-peers bench-locks release module adapters

build:
	CGO_ENABLED=0 $(GO) build -o bin/lockpick ./cmd/lockpick

# setup installs what tests need (as root or in CI), or names what is missing.
# SETUP=0 leaves the machine as it is.
setup:
	@.ci/setup

# The lock libraries of other languages, pinned, into .adapters: harness/lock/exec/adapters.
adapters:
	@for set in node python python-old go java rust; do .ci/adapters $$set || [ $$? = 75 ] || exit 1; done

# The tests that need an engine of containers take minutes: make containers. Those that run
# beside others mostly wait: for servers, clocks and signals. -short takes a part of the random
# cases: .ci/README.md. Test binaries with small heaps would spend a third of their time on
# garbage, so GOGC lets the heaps grow.
test: setup
	$(GO) vet ./...
	GOGC=400 $(GO) test -vet=off -short -p 3 -parallel 4 ./...

# What the compiler lets pass, in the builds of all tags, and what go.mod should say.
# .ci/tools has the versions of the tools. The first time takes minutes.
lint:
	$(GO) tool -modfile=.ci/tools/go.mod staticcheck -matrix ./... <.ci/tools/builds
	$(GO) mod tidy -diff

# The packages that have goroutines, and whose tests the race detector slows down least;
# race-all is all of them.
RACE = ./harness ./harness/client ./harness/lock/... ./harness/process ./harness/real ./harness/real/fuse \
	./harness/real/packets ./harness/real/proc ./harness/real/proxy ./harness/resp ./harness/sim/node ./internal/files ./redlock/... \
	./scenarios/campaign
race:
	CGO_ENABLED=1 $(GO) test -race -vet=off -short -parallel 4 $(RACE)

race-all:
	CGO_ENABLED=1 $(GO) test -race -short -timeout 30m ./...

# The simulation works everywhere; elsewhere the other backends say why they don't. By day
# the types are checked for other systems; cross-all also compiles and links.
SYSTEMS = darwin/arm64 windows/amd64 linux/arm64
cross:
	cd .ci/tools && $(GO) run ./types ../.. $(SYSTEMS)

cross-all:
	@set -e; for t in $(SYSTEMS); do \
		echo "build and vet for $$t"; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) build ./...; \
		GOOS=$${t%/*} GOARCH=$${t#*/} CGO_ENABLED=0 $(GO) vet ./...; \
	done

# The longer checks stand in files with a build tag: long (the simulation, the checker's
# mutants, a browser), processes (real servers, in real time), containers (an engine), and
# nightly, which lets the others take longer as well. tagged runs the tests of the files
# with tag $(1), and no others of their packages, built with tags $(2), with further flags $(4).
files = $(shell grep -rlE '^//go:build.*\b($(1))\b' --include=*_test.go .)
names = $(shell grep -hoE '^func Test[A-Za-z0-9]+' $(call files,$(1)) | sed 's/^func //')
space := $() $()
tagged = $(GO) test -tags '$(2)' -count=1 $(or $(4),-p 1) -timeout $(3) -v -run '^($(subst $(space),|,$(call names,$(1))))$$' $(sort $(dir $(call files,$(1))))

simulation:
	$(call tagged,long,long,20m,-p 2)

processes:
	$(call tagged,processes,processes,20m,-p 1 -parallel 4)

# The tests of package docker that need an engine are among its quick ones.
containers:
	$(call tagged,containers,containers,20m)
	$(GO) test -count=1 -timeout 20m ./docker

# All that is thorough; it takes hours. .ci/nightly runs it after the canary.
nightly:
	$(call tagged,long|processes|containers|nightly,long processes containers nightly,120m)
	$(GO) test -tags nightly -count=1 -p 1 -timeout 60m -skip '^($(subst $(space),|,$(call names,nightly)))$$' ./...
	$(MAKE) check-exhaustive sweep hunts fuzz race-all cross-all

# A lock that is broken must be caught, or nothing else that passes says anything.
canary:
	$(GO) test -tags nightly -count=1 -timeout 10m -v -run '^TestCanary$$' ./cmd/lockpick

# Each lock with a mistake: by which scenario it is caught, as what, and with which seed.
broken:
	$(GO) test -tags long -count=1 -timeout 10m -v -run '^TestBrokenLocks$$' ./scenarios

# The same locks under random plans, which nobody has told what to look for: some minutes.
broken-random:
	$(GO) test -tags 'long nightly' -count=1 -timeout 40m -v -run '^TestBrokenLocksUnderRandomPlans$$' ./cmd/lockpick

# The reference lock under ten thousand random plans within its assumptions: no
# violation is to be found. Ten minutes on two cores; make random SEEDS=1000 is a tenth.
# PLANS=random-within-assumptions draws as many for each variant.
SEEDS ?= 10000
PLANS ?= random-within-assumptions/
random: build
	bin/lockpick run $(PLANS) --seeds $(SEEDS)

# Ten times as many at night, in parts as several machines would have them.
SHARDS ?= 8
sweep: build
	rm -rf artifacts/sweep
	for k in $$(seq $(SHARDS)); do bin/lockpick run $(PLANS) --seeds 100000 --shard $$k/$(SHARDS) --store artifacts/sweep || exit; done
	bin/lockpick merge artifacts/sweep

# A sweep by Slurm, which is started for that, as only root may. The night has it, too.
engines:
	$(GO) test -tags nightly -count=1 -timeout 60m -v -run '^TestSlurm$$' ./scenarios/campaign

# Seeds that were never tried, for each lock, and what was found before: HUNT=10m is for each.
HUNT ?= 5m
hunts: build
	@.ci/hunts $(HUNT)

# Every history of two sessions of the lease against porcupine, seven and a half
# million, and two million random ones: some minutes. The quick tests take each
# 331st, and 10,000.
check-exhaustive:
	$(GO) test -tags exhaustive -count=1 -timeout 30m -v -run 'Exhaustively|Against' ./checker/...

# Files of strangers: each reader of them for a minute. It is one target a call.
FUZZ ?= 60s
fuzz:
	@set -e; grep -rEo --include=*_test.go '^func Fuzz[A-Za-z]+' . | sed 's|/[^/]*:func | |' | while read dir name; do \
		echo "$$name in $$dir"; $(GO) test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZ) -fuzzminimizetime 1s $$dir; \
	done

# What each lock keeps under which failures, from real runs, into reports/scorecards/: hours on an idle
# machine. Some of them: .ci/scorecards etcd redsync
scorecards:
	@.ci/scorecards

bench:
	GODEBUG=adaptivestackstart=1 $(GO) test -run '^$$' -bench . -benchmem ./...
	$(MAKE) bench-peers bench-locks

# The checker beside porcupine on the same histories, up to ten million operations
# (Linux; up to an hour, and 12 GB). A part of it:
# make bench-peers SIZES=1k,100k KEYS=1 UNKNOWN=0,5 VERDICTS=violated
bench-peers:
	$(GO) test -tags bench -count=1 -timeout 6h -v -run '^TestBesidePeers$$' ./checker

# The lock beside others, on five redis-servers: many keys, one key, a node that is stopped,
# what durability costs (Linux; some minutes). A part of it:
# make bench-locks LOCKS='-run TestBesideLocks$$ -at 512 -only wire,redsync -reps 3 -for 200ms'
LOCKS ?= -run TestBesideLocks
bench-locks:
	$(GO) test -tags bench -count=1 -timeout 1h -v ./redlock/wire $(LOCKS)

# Archives of static binaries for all systems, with licenses and checksums, in dist/; twice the same bytes.
release:
	@GO="$(GO)" .ci/release

# make module PATH=example.org/you/lockpick renames the module for whoever publishes it.
# PATH is also where commands are found: that is put right here, or say MODULE=.
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(shell /usr/bin/tr '\0' '\n' </proc/$$PPID/environ | /bin/sed -n 's/^PATH=//p')
endif
module:
	@.ci/module "$(MODULE)"
