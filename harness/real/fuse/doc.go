// Package fuse provides a disk that loses unsynced data when its power is cut. It is an in-memory file
// system that this process serves through FUSE, for the data directory of one redis-server.
//
//	             write           fsync
//	redis-server ──►  as seen  ────────►  as on disk
//	                     ▲                    │
//	                     └──── power loss ────┘
//
// A Disk can lose power, stall syncs, and be full. Disks holds the disks of a run's nodes. Killing a
// process loses no data, because on a real machine the page cache also survives that.
//
// The file system is ordered, like one with a single journal: a sync of any file commits the entries of
// all directories. A file system that does only what POSIX requires could lose Redis's file even with
// persistence `always`, because Redis never syncs the parent directory of appendonlydir.
//
// This process must not use the mounted directory itself: if it were killed while waiting for its own
// answer, it could never exit. Deliberately missing: owners, permissions, links, and files that don't
// fit into memory. The package needs Linux.
package fuse

import "lockpick/nemesis"

// These are the capabilities for disk and power faults.
var (
	PowerLoss  = nemesis.Capability("power-loss", nemesis.Node)
	DiskFaults = nemesis.Capability(nemesis.PowerDisk, nemesis.Node)
)
