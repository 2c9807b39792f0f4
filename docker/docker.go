// Package docker is the container backend. It runs each redis-server, each client and the resource in its
// own container, on a private network and in real time.
//
// The main types are
//
//	backend     runs scenarios
//	testbed     what consecutive runs share on the engine: a network and the containers on it
//	cluster     a run on a testbed (real.Run), with the faults it can inject
//	container   a node, a client, the links, a sidecar or an address
//	image       the root file system for containers
//
// Package engine talks to the Docker engine.
//
//	               lockpick
//	 stdin, stdout ╱   │   ╲  of each
//	 client ────── links ────── node, at its address ╮
//	.101+        .2 │           .11+                 │
//	                ╰──── replica, likewise          │ past the links
//	                            .51+ ─────────────╮  │
//	                                       sentinel, likewise
//	                                              .91+
//
// lockpick itself does not use the network. The links' container queries nodes on its behalf.
//
// Creating a container costs tenths of a second of CPU time, most of it for its network. A node therefore
// uses the network of a separate container, its address, which survives the node's death. A run reuses a
// healthy node from an earlier run with the same persistence mode after wiping it and verifying the wipe,
// unless the node had replicas, a faulty disk or a changed clock. Each run starts new client processes,
// but a client's container is kept until the client is killed.
//
// If the plan changes a container's clocks, the container's program starts through a gate (package vdso).
// If the engine is on this machine and lockpick is root, lockpick traces the program and opens the gate.
// Otherwise, or if lockpick cannot see or trace the process, an agent in a sidecar container does so. The
// sidecar shares the container's processes, cannot trace any others, and has no network. It has one
// capability, SYS_PTRACE, which is required to rewrite the code with which another process reads the
// time.
//
// If the plan drops a node's packets, a sidecar with a packet filter shares the node's network namespace
// and has access to no other. It has one capability, NET_ADMIN, which is required to install rules that
// drop packets there. No other container has any capability.
//
// Nodes report key changes to the links' container over a connection that bypasses the links.
//
// The monitor (guard.go) reports interference with containers and the processes in them. The engine
// reports exits and pauses. If the engine is on this machine, the monitor looks in /proc for processes
// stopped by a signal. It notices any other interference because answers are missing.
//
// Containers and networks have a label that names their owner, so that they can be found and removed even
// if the owner is dead. Images are cached, one of each kind, and their names contain a checksum of the
// contents.
//
// Nodes run the image named by the scenario, without its entrypoint script, or else redis:7 or an image
// built from this machine's redis-server (container.go). Clients and links run an image that contains
// only lockpick and, if lockpick was built with a C compiler, its shared libraries (program.go).
//
// The package deliberately supports no Redis features between servers except replication; it does not
// support Redis Cluster, for example. It requires Linux.
package docker

import (
	"sync"

	"lockpick/harness"
)

// Config specifies programs and images for containers. The zero value is ready to use.
type Config struct {
	Client       []string // client program and arguments; lockpick if nil
	ClientBinary string   // lockpick binary for containers if Client is nil; by default this binary, or one built from source with the go tool
	Adapter      []string // command to run the lock's adapter in containers of AdapterImage; see package lock/exec
	AdapterImage string   // image for clients if Adapter is set; the engine must have it
	RedisServer  string   // program on this machine to build the image for nodes from; by default redis:7 if the engine has it, else redis-server on PATH
}

// AgentVerb is the first argument when this backend starts lockpick in a container. A program that uses
// this backend must handle AgentVerb by passing the other arguments to Agent, and must handle
// vdso.GateVerb.
const AgentVerb = "__agent"

// MissingError reports that a required image or program is missing, and how to provide it.
type MissingError struct {
	Reason error
	Remedy string
}

func (l *MissingError) Error() string { return l.Reason.Error() + "; to fix it: " + l.Remedy }
func (l *MissingError) Unwrap() error { return l.Reason }

const defaultImage = "redis:7"

// runLabel is a label that distinguishes an owner's testbeds.
const runLabel = "lockpick.run"

// backend runs scenarios in containers. It keeps testbeds between runs until Close removes them.
type backend struct {
	cfg     Config
	program *clientProgram

	assumeRemote bool // for tests: treat the engine as if it were on another machine

	creationMu sync.RWMutex // read-locked while a testbed is created

	mu           sync.Mutex
	idleTestbeds []*testbed // left by earlier runs, for reuse
}

var _ harness.Backend = (*backend)(nil)

func New(cfg Config) *backend {
	return &backend{cfg: cfg, program: &clientProgram{binary: cfg.ClientBinary}}
}

func (*backend) Name() string { return "docker" }
