//go:build !linux

package proc

// cleanUpRun is nil on other systems, where a run leaves no processes and no disks.
var cleanUpRun func(dir string, known bool) error
