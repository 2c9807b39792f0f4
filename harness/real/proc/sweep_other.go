//go:build !linux

package proc

import "lockpick/harness/owned"

// putAway is nil: no processes and no disks are left where there are none.
var putAway func(owned.Left) error
