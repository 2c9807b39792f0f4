// Package engine is lockpick's client for the Docker engine. It finds the engine, creates and controls
// containers, and removes objects that dead owners have left there.
//
// The main types are Engine; About, the engine's description of itself; ContainerSpec, which describes
// a new container, by default without any privilege; Limits, the CPU time and memory that a container
// may use; ImageInfo, the properties of an image; and OwnedObject, a container, network or image with
// its owner's label, by which Sweep recognizes leftovers of dead owners.
//
// Every call returns: the package gives up on an engine that accepts a connection but never answers.
//
// Deliberately missing: what containers are for, and logging in to registries. The package does not
// deal with nodes, clients or runs. It finds the engine by DOCKER_HOST, and pulls only public images.
// It needs Linux.
package engine

import (
	"archive/tar"
	"strings"
)

// TarFile writes an executable file to an archive.
func TarFile(t *tar.Writer, path string, text []byte) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

// FirstLine returns the first line of an error's message.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ":")
}
