package docker

import (
	"sync"

	"lockpick/harness"
)

// Backend runs scenarios in containers. Close removes what it keeps between runs.
type Backend struct {
	cfg     Config
	clients *program

	far bool // engines are taken to be on another machine, as tests want it

	making sync.RWMutex // held for reading while a site is made

	mu   sync.Mutex
	idle []*site // of runs before
}

var _ harness.Backend = (*Backend)(nil)

// New returns a backend.
func New(cfg Config) *Backend {
	return &Backend{cfg: cfg, clients: &program{binary: cfg.ClientBinary}}
}

// Name is "docker".
func (*Backend) Name() string { return "docker" }
