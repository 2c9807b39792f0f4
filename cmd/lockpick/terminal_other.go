//go:build !unix

package main

import "os"

// terminal returns false: this platform's terminals are treated like files.
func terminal(*os.File) (columns int, ok bool) { return 0, false }
