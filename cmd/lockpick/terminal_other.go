//go:build !unix

package main

import "os"

// terminal is not known here: everything is written as to a file.
func terminal(*os.File) (columns int, ok bool) { return 0, false }
