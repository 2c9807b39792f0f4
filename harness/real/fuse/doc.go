// Package fuse is a disk that loses unsynced data: an in-memory file system, served through FUSE by this
// process, for the data directory of one redis-server.
//
//	             write           fsync
//	redis-server ──►  as seen  ────────►  as on disk
//	                     ▲                    │
//	                     └──── power loss ────┘
//
// A Disk can lose its power, stall syncs, and be full. Disks holds the disks of a run's nodes. Killing a
// process loses no data here, just as the page cache of a running machine survives it.
//
// The file system is ordered, as one with a single journal is: a sync of any file commits the entries of
// all directories. Strictly by POSIX, even Redis's `always` would lose its file, because Redis never
// syncs the parent directory of appendonlydir.
//
// This process must not use the mounted directory itself: if it were killed while waiting for its own
// answer, it could never end. Deliberately missing: owners, permissions, links, and files that don't fit
// into memory. The package needs Linux.
package fuse

import "lockpick/nemesis"

// These are the capabilities for disk and power faults.
var (
	PowerLoss  = nemesis.Capability("power-loss", nemesis.Node)
	DiskFaults = nemesis.Capability(nemesis.PowerDisk, nemesis.Node)
)
