//go:build !unix

package main

import "os"

// terminal does not detect terminals on this platform; all output is treated as a file.
func terminal(*os.File) (columns int, ok bool) { return 0, false }
