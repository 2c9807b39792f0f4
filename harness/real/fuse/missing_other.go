//go:build !linux

package fuse

// Missing returns why disk faults are not supported on this machine, and a remedy.
func Missing() (reason, remedy string) {
	return "FUSE is required, which lockpick supports only on Linux", "use the simulation (--backend sim)"
}

// Remedy tells the user what to do if the machine does not permit mounting.
const Remedy = "use the simulation (--backend sim)"
