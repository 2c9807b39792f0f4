// Package fuse is a disk that forgets what it was not asked to sync: a file system
// in memory, served by FUSE from this process, for the data directory of one
// redis-server.
//
//	             write           fsync
//	redis-server ──►  as seen  ────────►  as on disk
//	                     ▲                    │
//	                     └──── power loss ────┘
//
// Its nouns are Disk, and Disks, those of a run's nodes. One can lose its power, let no
// sync come back, and be full. Killing a process alone loses nothing here, as the page
// cache of a machine that stays up does not.
//
// It is ordered, as one journal makes a file system: a sync of any file commits the
// entries of all directories. By the letter of POSIX even redis's `always` would
// lose its file, for redis never syncs the directory above appendonlydir.
//
// This process must not use the mounted directory itself: killed while it waits for
// its own answer, it could never end. Deliberately missing: owners, permissions, links, and files
// that don't fit into memory. It needs Linux.
package fuse

import "lockpick/nemesis"

// What a plan needs of a node's disk.
var (
	LosesPower = nemesis.Capability("power-loss", nemesis.Node)
	HitsDisks  = nemesis.Capability(nemesis.PowerDisk, nemesis.Node)
)
