//go:build !linux

package proc

// cleanUpRun is nil, because a run leaves no processes or disks on other systems.
var cleanUpRun func(dir string, known bool) error
