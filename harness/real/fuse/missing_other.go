//go:build !linux

package fuse

// Missing returns why such disks are not supported on this machine, and a remedy.
func Missing() (reason, remedy string) {
	return "it needs FUSE, which lockpick supports only on Linux", "use the simulation (--backend sim)"
}

// Remedy suggests what to do on a machine that does not permit mounting.
const Remedy = "use the simulation (--backend sim)"
