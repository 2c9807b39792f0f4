// Package docker is the backend of containers: redis-servers, clients and the
// resource each in one, on a network of their own, in real time.
//
// Its nouns are Backend; site, which is what the engine has for one run after the other: a
// network, the box of the links, and what is on it; cluster, which is
// one run there (real.Run) and has its powers; box, one container, which is a node's, a
// client's or that of the links; address, a box that only has an address, at which nodes
// come and go; and image, what they are made of. Package engine below it is the Docker
// engine, and where it is.
//
//	                    lockpick
//	      stdin, stdout ╱   │   ╲  of each
//	client's box ── links' box ── node's box, at its address ╮
//	     .101+        .2 │           .11+                    │
//	                     ╰──── replica's box, likewise       │ past the links
//	                                 .51+ ────────────────╮  │
//	                                            sentinel's box, likewise
//	                                                      .91+
//
// Lockpick reaches nobody by the network: the links' box asks the nodes for it. Nodes
// that will do are wiped for the next run, and it is looked whether they are; others
// are made anew, and so are all that had replicas, disks that can be hit or clocks that
// are turned. A site keeps nodes for each way of persistence. To make a container takes
// tenths of a second of a processor, most of it for its network: a node has that of its
// address, which stays when the node is killed, and a client is a process of its own for
// each run, in a container that stays unless the client is killed.
//
// A container whose clocks the plan turns starts its program through a gate (package
// vdso). Where the engine is on this machine and lockpick is root, lockpick itself traces
// the program by its process, and opens the gate. Otherwise, and where it does not see the
// process or may not trace it, an agent in a container beside does. That one shares the
// processes of the first, is on no network, and has one capability: SYS_PTRACE, without
// which nobody may rewrite what another process reads the time by. It can trace nobody else.
//
// A node whose packets the plan loses has a filter beside it, that shares its network
// namespace and has one capability: NET_ADMIN, without which nobody may have rules there
// by which packets are lost. It can reach no other namespace. No other container has any.
//
// Nodes tell the links' box of their keys, by a connection that no link carries.
//
// What somebody else does to a container, or to a process in it, is told (guard.go): the
// engine tells of ends and pauses, /proc of what a signal has stopped where that is on this
// machine, and silence of the rest.
//
// Containers and networks carry the label of
// their owner, by which they are removed, what a dead owner left too. Images stay, one of
// each sort, as a cache: their names are sums of what is in them.
//
// Nodes run the image that the scenario names, whatever it does at its start by itself;
// or redis:7, or one made of this machine's redis-server (container.go). Clients and links
// run lockpick, in an image of that alone and the libraries that it is linked to, as Go
// links it where there is a C compiler (program.go).
//
// Deliberately missing: what redis-servers do among themselves beyond replicas, as a
// cluster. It needs Linux.
package docker

import (
	"sync"

	"lockpick/harness"
)

// Config says where things are. The zero value is ready.
type Config struct {
	Client       []string // program that becomes a client, and its arguments; nil: lockpick
	ClientBinary string   // a lockpick for containers, where Client is nil; "": this one, or what the go tool makes of its source
	Adapter      []string // command, in containers of AdapterImage, of the program that has the lock, of kind exec; see package lock/exec
	AdapterImage string   // what clients then run in; it has to be there
	RedisServer  string   // program of this machine that nodes are made of; "": redis:7 where the engine has it, or redis-server on PATH
}

// AgentVerb is the first argument with which this backend starts lockpick's program in containers; a
// program that makes a Backend calls Agent with the arguments that follow. The other is vdso.GateVerb.
const AgentVerb = "__agent"

// Lack is what keeps a run from its images, and what to do about it.
type Lack struct {
	Reason error
	Remedy string
}

func (l *Lack) Error() string { return l.Reason.Error() + "; to fix it: " + l.Remedy }
func (l *Lack) Unwrap() error { return l.Reason }

const usual = "redis:7"

// runLabel tells the runs of one owner apart.
const runLabel = "lockpick.run"

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
