package main

import (
	"fmt"
	"strings"
)

// again is the command that runs a scenario again, for a POSIX shell.
func (f *runFlags) again(p pick, seed uint64) string {
	return fmt.Sprintf("lockpick run %s --seed %d", quoted(p.Exact()), seed) + f.overrides()
}

// overrides are the flags that change what is run, as they were given.
func (f *runFlags) overrides() (c string) {
	if f.backend != simulation {
		c += " --backend " + f.backend
	}
	if f.client != "" {
		c += " --client-binary " + quoted(f.client)
	}
	if f.scale > 0 {
		c += fmt.Sprintf(" --scale %g", f.scale)
	}
	switch {
	case f.adapter != "":
		c += " --adapter " + quoted(f.adapter)
		if f.image != "" {
			c += " --adapter-image " + quoted(f.image)
		}
	case f.lock != "":
		c += " --lock " + quoted(f.lock)
	}
	for _, s := range f.sets {
		c += " --set " + quoted(s)
	}
	for _, e := range f.expects {
		c += " --expect " + quoted(e)
	}
	return c
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,%+") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
