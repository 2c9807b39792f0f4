//go:build !linux

package redlock

import "time"

func sinceBoot() (time.Duration, bool) { return 0, false }
