//go:build !linux

package proc

// putAway is nil: no processes and no disks are left where there are none.
var putAway func(dir string, known bool) error
