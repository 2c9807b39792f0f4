//go:build !linux

package fuse

// Missing says why there can be no such disk on this machine, and what to do about it.
func Missing() (reason, remedy string) {
	return "it needs FUSE, which lockpick uses on Linux only", "use the simulation (--backend sim)"
}

// Remedy is for a machine that has all and lets nobody mount.
const Remedy = "use the simulation (--backend sim)"
