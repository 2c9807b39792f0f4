// Package docker is the container backend. It runs each redis-server, each client and the
// resource in a container of its own, on a private network and in real time.
//
// The main types are backend; testbed, the engine-side setup that consecutive runs share: a
// network, the links' container and the containers on that network; cluster, one run on a
// testbed (real.Run) with the faults that it can inject; container, which holds a node, a
// client or the links; address, a container that only holds an IP address, where nodes come
// and go; and image, from which containers are created. Package engine talks to the Docker
// engine.
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
// Lockpick itself does not use the network. The links' container queries the nodes on its
// behalf. The next run reuses a node if it is healthy: the node is wiped, and the wipe is
// verified. Other nodes are created anew, and so are nodes that had replicas, faulty disks or
// changed clocks. A testbed keeps one node for each persistence mode. Creating a container costs
// tenths of a second of CPU time, most of it for its network. So a node uses the network of its
// address, which survives the node's death. Each run starts a new client process in a
// container that is kept until the client is killed.
//
// A container whose clocks the plan changes starts its program through a gate (package vdso).
// If the engine is on this machine and lockpick is root, lockpick traces the program itself and
// opens the gate. Otherwise, or if it cannot see or trace the process, an agent in a sidecar
// container does. The sidecar shares the first container's processes, has no network, and has
// one capability, SYS_PTRACE, without which no process may rewrite the code with which another
// one reads the time. The sidecar can't trace any other processes.
//
// A node whose packets the plan drops has a packet filter in a sidecar, which shares the node's
// network namespace and has one capability, NET_ADMIN, without which no process may install
// rules that drop packets there. The sidecar has no access to other namespaces. No other
// container has any capability.
//
// Nodes report changes of their keys to the links' container, over a connection outside the links.
//
// The monitor (guard.go) reports interference with a container or with a process in it. The engine
// reports exits and pauses. If the engine is on this machine, the monitor finds processes stopped
// by a signal in /proc. It notices everything else by missing answers.
//
// Containers and networks have a label that names their owner. They are found and removed by that
// label, even if the owner is dead. Images are kept as a cache, one of each kind. Their names
// contain checksums of their contents.
//
// Nodes run the image that the scenario names, without its entrypoint script. If it names none, they
// run redis:7 or an image built from this machine's redis-server (container.go). Clients and links
// run an image that contains only lockpick and its shared libraries (program.go). It has shared
// libraries if Go built it with a C compiler.
//
// Deliberately missing: Redis features between servers other than replication, such as Redis
// Cluster. The package needs Linux.
package docker

import (
	"sync"

	"lockpick/harness"
)

// Config specifies the programs and images that containers use. The zero value is ready for use.
type Config struct {
	Client       []string // client program and its arguments; lockpick if nil
	ClientBinary string   // lockpick binary for containers if Client is nil; "": this binary, or one that the go tool builds from source
	Adapter      []string // command that runs the lock's adapter in containers of AdapterImage; see package lock/exec
	AdapterImage string   // image of the clients if Adapter is set; the engine must have it
	RedisServer  string   // program on this machine to build the nodes' image from; "": redis:7 if the engine has it, else redis-server on PATH
}

// AgentVerb is the first argument with which this backend starts lockpick in containers. A program
// that uses this backend must pass the arguments after it to Agent, and must also handle
// vdso.GateVerb.
const AgentVerb = "__agent"

// MissingError reports that an image or program that a run needs is missing, and how to provide
// it.
type MissingError struct {
	Reason error
	Remedy string
}

func (l *MissingError) Error() string { return l.Reason.Error() + "; to fix it: " + l.Remedy }
func (l *MissingError) Unwrap() error { return l.Reason }

const defaultImage = "redis:7"

// runLabel is the label that distinguishes the runs of one owner.
const runLabel = "lockpick.run"

// backend runs scenarios in containers. It keeps testbeds between runs; Close removes them.
type backend struct {
	cfg     Config
	clients *clientProgram

	assumeRemote bool // treat the engine as one on another machine, for tests

	creating sync.RWMutex // held for reading while a testbed is created

	mu   sync.Mutex
	idle []*testbed // left by earlier runs, for the next one
}

var _ harness.Backend = (*backend)(nil)

func New(cfg Config) *backend {
	return &backend{cfg: cfg, clients: &clientProgram{binary: cfg.ClientBinary}}
}

func (*backend) Name() string { return "docker" }
