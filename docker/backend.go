package docker

import (
	"sync"

	"lockpick/harness"
)

// backend runs scenarios in containers. Close removes what it keeps between runs.
type backend struct {
	cfg     Config
	clients *program

	far bool // engines are taken to be on another machine, as tests want it

	making sync.RWMutex // held for reading while a site is made

	mu   sync.Mutex
	idle []*site // of runs before
}

var _ harness.Backend = (*backend)(nil)

// New returns a backend.
func New(cfg Config) *backend {
	return &backend{cfg: cfg, clients: &program{binary: cfg.ClientBinary}}
}

// Name is "docker".
func (*backend) Name() string { return "docker" }
