// Package engine is lockpick's client for the Docker engine. It finds the engine through DOCKER_HOST,
// creates and controls containers, and removes objects that dead owners left behind.
//
// Containers have no privileges by default. Containers, networks and images have a label that names their
// owner, so that Sweep can recognize the leftovers of dead owners.
//
// All calls return eventually: they time out if the engine accepts a connection but never answers.
//
// The package knows nothing about nodes, clients or runs. It deliberately does not log in to registries,
// so it can pull only public images. It requires Linux.
package engine

import (
	"archive/tar"
	"strings"
)

// TarFile adds an executable file to an archive.
func TarFile(t *tar.Writer, path string, text []byte) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

// FirstLine returns the first line of an error message, without a colon at the end.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ":")
}
