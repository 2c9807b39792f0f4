//go:build !unix

package files

import "io/fs"

// mine reports whether a file or folder belongs to this user: the system's temporary directory does.
func mine(fs.FileInfo) bool { return true }
