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

// image is a root file system: of a program of this machine and the libraries that it
// is linked to, each at its own path, or of one file that needs none.
type image struct {
	sort    string            // redis or client
	program string            // the path of what it is made for
	loader  string            // the path of what loads that; "": nothing, it needs no library
	files   map[string][]byte // by path
	ref     string            // its name, which is a sum of what is in it
}

// imageOf reads a program of this machine and all that it needs to start. It has the
// path inside there; what it needs has the path that it has here.
func imageOf(sort, program, inside string) (*image, error) {
	i := &image{sort: sort, program: inside, files: map[string][]byte{}}
	if err := i.add(program, inside); err != nil {
		return nil, fmt.Errorf("make the image of %s: %w", program, err)
	}
	i.name()
	return i, nil
}

func (i *image) put(files map[string][]byte) {
	maps.Copy(i.files, files)
	i.name()
}

func (i *image) name() { i.ref = "lockpick-" + i.sort + ":" + i.sum() }

// add adds a file of this machine with its loader and its libraries.
func (i *image) add(path, inside string) error {
	if i.files[inside] != nil {
		return nil
	}
	text, err := files.Read(path, mostProgram)
	if err != nil {
		return err
	}
	i.files[inside] = text
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s is no program that Linux runs by itself: %w", path, err)
	}
	loader, err := loaderOf(f)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if inside == i.program {
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
			return fmt.Errorf("%s needs %w", path, err)
		}
		if err := i.add(lib, lib); err != nil {
			return err
		}
	}
	return nil
}

// loaderOf is the path of what loads a program and its libraries; "": it is linked
// statically, or is a library.
func loaderOf(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			path, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(path), "\x00"), err
		}
	}
	return "", nil
}

// apart is the image's program with all that it needs in one directory, where it
// disturbs no other image's libraries, and how it is called there: by its own loader.
func (i *image) apart(dir string) (files map[string][]byte, command []string) {
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

// libraryDirs is where the loader looks by itself.
var libraryDirs = []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

// findLibrary finds a library, of those that are for the machine.
func findLibrary(name string, machine elf.Machine) (string, error) {
	for _, dir := range libraryDirs {
		found, _ := filepath.Glob(filepath.Join(dir, name))
		for _, path := range found {
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

// sum is of all files and their names.
func (i *image) sum() string {
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

// mostProgram bounds what is taken for a program: ten times this one.
const mostProgram = 512 << 20

// gateDir is where lockpick's program, with what it needs, is put in a container of
// another image.
const gateDir = "/lockpick-gate"

// software is what nodes run: a program in an image.
type software struct {
	ref     string // of the image
	digest  string // of what is in it; "": it is made here, and its name tells
	program string
	from    string // the program of this machine that it is made of; "": it was there, or was pulled
	gated   bool   // it has lockpick's program in gateDir
}

func (s software) String() string {
	if s.from != "" {
		return fmt.Sprintf("image %s, made of this machine's %s", s.ref, s.from)
	}
	return fmt.Sprintf("image %s (%s)", s.ref, s.digest)
}
