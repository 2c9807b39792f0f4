// Package fuse provides a disk that loses unsynced data when its power is cut. The disk is an in-memory
// file system, served through FUSE by this process, for the data directory of one redis-server.
//
//	             write           fsync
//	redis-server ──►  as seen  ────────►  as on disk
//	                     ▲                    │
//	                     └──── power loss ────┘
//
// A Disk can lose power, stall syncs, and be full. Disks holds the disks of a run's nodes. Killing a
// process loses no data, because the page cache of a real machine survives a kill too.
//
// The file system is ordered, like one with a single journal: a sync of any file commits the entries
// of all directories. A file system that does no more than POSIX requires could lose Redis's file even
// with persistence `always`, because Redis never syncs the parent directory of appendonlydir.
//
// This process must not use the mounted directory itself: if it were killed while waiting for its own
// answer, it could never exit. Not supported: owners, permissions, links, and files that don't fit
// into memory. The package needs Linux.
package fuse

import "lockpick/nemesis"

// Capabilities for power and disk faults.
var (
	PowerLoss  = nemesis.Capability("power-loss", nemesis.Node)
	DiskFaults = nemesis.Capability(nemesis.DiskCapability, nemesis.Node)
)
