// Package engine is the Docker engine as lockpick uses it: where it is, what it is asked,
// and what dead owners left there.
//
// Its nouns are Engine; About, what it says of itself; Making, what a container is made of, who
// has no privilege but those that are named; Share, what a container may use of its machine;
// Contents, what an image has; and Belonging, a thing of the engine's that carries the label of
// its owner, by which Sweep tells what a dead one left.
//
// Every call ends: an engine that takes connections and then says nothing is given up.
//
// Deliberately missing: what containers are for. It knows no node, client or run. Logins are
// missing, too: it finds its engine by DOCKER_HOST, and pulls what anybody may pull. It needs
// Linux.
package engine

import (
	"archive/tar"
	"strings"
)

// TarFile writes a file, as a program may be, to an archive.
func TarFile(t *tar.Writer, path string, text []byte) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

// FirstLine is the first line of what an error says.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ":")
}
