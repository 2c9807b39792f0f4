//go:build !linux

package proc

// cleanUpRun is nil, because on other operating systems a run leaves no processes or disks behind.
var cleanUpRun func(dir string, known bool) error
