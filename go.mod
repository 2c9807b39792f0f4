module lockpick

go 1.26.0

require (
	// The links between clients and real nodes.
	github.com/Shopify/toxiproxy/v2 v2.12.0
	// The second judge.
	github.com/anishathalye/porcupine v1.3.1
	// A lock under test as it is published: the single-instance lock that most Go programs use.
	github.com/bsm/redislock v0.9.4
	// What an error of the engine's client means.
	github.com/containerd/errdefs v1.0.0
	// What containers are asked of: the engine's own client, which agrees with old
	// engines on a version of the API.
	github.com/docker/docker v28.5.2+incompatible
	// Sizes as people write them, for gc: the engine's client has it with it.
	github.com/docker/go-units v0.5.0
	// A lock under test as it is published: the Redlock that most Go programs use.
	github.com/go-redsync/redsync/v4 v4.18.1
	// Packets that are lost below TCP: nftables by netlink, without a program of its own.
	github.com/google/nftables v0.3.0
	// Disks that lose power: a file system in this process.
	github.com/hanwen/go-fuse/v2 v2.12.1
	// Pages of a store by gzip to browsers that take it so: a part of net/http's job that it leaves.
	github.com/klauspost/compress v1.20.4
	// Toxiproxy's constructor wants a registry and a logger of these.
	github.com/prometheus/client_golang v1.25.0
	// The Redis client that redisnode and the resource's client stand on.
	github.com/redis/go-redis/v9 v9.23.0
	// A lock under test as it is published, rueidislock: one that extends itself, and tells its
	// holder of a loss. It is a package of this client.
	github.com/redis/rueidis v1.0.79
	github.com/rs/zerolog v1.35.1
	// The command line.
	github.com/spf13/cobra v1.10.2
	// Cobra's own flags: settings files and --compare set them by name.
	github.com/spf13/pflag v1.1.0
	// Lua in the simulated node.
	github.com/yuin/gopher-lua v1.1.2
	// Scenario files: nodes with line and column.
	go.yaml.in/yaml/v3 v3.0.6
	// Raw system calls: the true clock.
	golang.org/x/sys v0.50.0
	// Figures: prescribed, and the field's own; SVG and PNG without cgo.
	gonum.org/v1/plot v0.17.0
)

// Tests only.
require (
	// A third opinion on what a Redis answers.
	github.com/alicebob/miniredis/v2 v2.40.0
	// A browser opens the reports: what their scripts do is seen nowhere else.
	// cdproto has the words of its protocol.
	github.com/chromedp/cdproto v0.159.3
	github.com/chromedp/chromedp v0.23.0
	// What GitHub says of workflows and actions, before GitHub sees them.
	github.com/rhysd/actionlint v1.7.12
	github.com/rogpeppe/go-internal v1.16.0
	// Another reader of EDN than ours, for what we write.
	olympos.io/encoding/edn v0.0.0-20201019073823-d3554ca0b0a3
)

require (
	codeberg.org/go-fonts/liberation v0.6.0 // indirect
	codeberg.org/go-latex/latex v0.3.0 // indirect
	codeberg.org/go-pdf/fpdf v0.12.0 // indirect
	git.sr.ht/~sbinet/gg v0.8.0 // indirect
	github.com/Microsoft/go-winio v0.6.4 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	github.com/containerd/errdefs/pkg v0.3.0 // indirect
	github.com/containerd/log v0.1.0 // indirect
	github.com/distribution/reference v0.6.0 // indirect
	github.com/docker/go-connections v0.8.2 // indirect
	github.com/fatih/color v1.19.0 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/go-cmp v0.7.0 // indirect
	github.com/gorilla/mux v1.8.1 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/cpuid/v2 v2.4.2 // indirect
	github.com/mattn/go-colorable v0.1.16 // indirect
	github.com/mattn/go-isatty v0.0.24 // indirect
	github.com/mattn/go-runewidth v0.0.31 // indirect
	github.com/mattn/go-shellwords v1.0.16 // indirect
	github.com/mdlayher/netlink v1.11.2 // indirect
	github.com/mdlayher/socket v0.8.0 // indirect
	github.com/moby/docker-image-spec v1.3.1 // indirect
	github.com/moby/sys/atomicwriter v0.1.0 // indirect
	github.com/moby/term v0.5.2 // indirect
	github.com/morikuni/aec v1.0.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/pandatix/go-abnf v0.5.5 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/prometheus/client_model v0.6.3 // indirect
	github.com/prometheus/common v0.73.1 // indirect
	github.com/prometheus/procfs v0.23.0 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/rs/xid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp v0.72.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.35.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.opentelemetry.io/otel/trace v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0-rc.3 // indirect
	golang.org/x/image v0.48.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.25.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	golang.org/x/time v0.11.0 // indirect
	golang.org/x/tools v0.52.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	gopkg.in/tomb.v1 v1.0.0-20141024135613-dd632973f1e7 // indirect
	gotest.tools/v3 v3.5.2 // indirect
)
