package docker

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockpick/docker/engine"
	"lockpick/internal/files"
)

// image is a root file system for a container. It contains a program from this machine and the shared
// libraries that the program requires, with the same paths as on this machine.
type image struct {
	kind    string            // redis or client; part of the name
	program string            // path of the program
	loader  string            // path of the program's loader, or "" if statically linked
	files   map[string][]byte // contents by path
	ref     string            // name, with a checksum of the contents
}

// newImage returns an image of a program from this machine and its dependencies. In the image, the
// program's path is imagePath, and dependencies have the same paths as on this machine.
func newImage(kind, program, imagePath string) (*image, error) {
	i := &image{kind: kind, program: imagePath, files: map[string][]byte{}}
	if err := i.add(program, imagePath); err != nil {
		return nil, fmt.Errorf("make the image of %s: %w", program, err)
	}
	i.setRef()
	return i, nil
}

func (i *image) addFiles(files map[string][]byte) {
	maps.Copy(i.files, files)
	i.setRef()
}

func (i *image) setRef() { i.ref = "lockpick-" + i.kind + ":" + i.checksum() }

// add adds a file from this machine as imagePath, and the loader and libraries it requires.
func (i *image) add(path, imagePath string) error {
	if i.files[imagePath] != nil {
		return nil
	}
	text, err := files.Read(path, maxProgramSize)
	if err != nil {
		return err
	}
	i.files[imagePath] = text
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s is not an ELF executable: %w", path, err)
	}
	loader, err := loaderOf(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if imagePath == i.program {
		i.loader = loader
	}
	if loader != "" {
		if err := i.add(loader, loader); err != nil {
			return err
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, name := range libraries {
		lib, err := findLibrary(name, f.Machine)
		if err != nil {
			return fmt.Errorf("%s requires %w", path, err)
		}
		if err := i.add(lib, lib); err != nil {
			return err
		}
	}
	return nil
}

// loaderOf returns the path of a program's loader, or "" for a static program or a library.
func loaderOf(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(path), "\x00"), err
		}
	}
	return "", nil
}

// standaloneFiles returns the program and its dependencies as files in a single directory, where they
// don't conflict with another image's libraries, and the command that starts the program there with its
// own loader.
func (i *image) standaloneFiles(dir string) (files map[string][]byte, command []string) {
	files = map[string][]byte{}
	for at, text := range i.files {
		files[path.Join(dir, path.Base(at))] = text
	}
	command = []string{path.Join(dir, path.Base(i.program))}
	if i.loader != "" {
		command = append([]string{path.Join(dir, path.Base(i.loader)), "--library-path", dir}, command...)
	}
	return files, command
}

// libraryDirs lists the directories that the loader searches by default.
var libraryDirs = []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// findLibrary finds a library for an architecture.
func findLibrary(name string, machine elf.Machine) (string, error) {
	for _, dir := range libraryDirs {
		matches, _ := filepath.Glob(filepath.Join(dir, name))
		for _, path := range matches {
			f, err := elf.Open(path)
			if err != nil {
				continue
			}
			f.Close()
			if f.Machine == machine {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s for %v, which is in none of %s", name, machine, strings.Join(libraryDirs, ", "))
}

func (i *image) checksum() string {
	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		fmt.Fprintf(sum, "%s %d\n", path, len(i.files[path]))
		sum.Write(i.files[path])
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

func (i *image) write(w io.Writer) error {
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o777}); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		if err := engine.TarFile(t, path, i.files[path]); err != nil {
			return err
		}
	}
	return t.Close()
}

// maxProgramSize limits the size of a program, in bytes. It is ten times the size of lockpick.
const maxProgramSize = 512 << 20

// gateDir is the directory for lockpick and its dependencies in a container of another image.
const gateDir = "/lockpick-gate"

// software is the server program that nodes run, and its image.
type software struct {
	ref       string // name of the image
	digest    string // digest of the image; "" if lockpick built it, because then the name has a checksum
	program   string
	builtFrom string // program on this machine that lockpick built the image from, or ""
	hasGate   bool   // the image contains lockpick, in gateDir
}

func (s software) String() string {
	if s.builtFrom != "" {
		return fmt.Sprintf("image %s, built from this machine's %s", s.ref, s.builtFrom)
	}
	return fmt.Sprintf("image %s (%s)", s.ref, s.digest)
}
