//go:build !linux

package proc

// cleanUpRun is nil: on other systems a run leaves no processes and no disks.
var cleanUpRun func(dir string, known bool) error
