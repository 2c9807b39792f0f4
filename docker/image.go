//go:build linux

package docker

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"lockpick/harness/files"
)

// imageLabel says which sort of image it is.
const imageLabel = "lockpick.image"

// image is a root file system: of a program of this machine and the libraries that it
// is linked to, each at its own path, or of one file that needs none.
type image struct {
	sort  string            // redis or client
	files map[string][]byte // by path, without the leading slash
	ref   string            // its name, which is a sum of what is in it
}

// imageOf reads a program and all that it needs to start.
func imageOf(sort, program string) (*image, error) {
	i := &image{sort: sort, files: map[string][]byte{}}
	if err := i.add(program); err != nil {
		return nil, fmt.Errorf("make the image of %s: %w", program, err)
	}
	i.name()
	return i, nil
}

// imageOfOne is the image of a program that needs nothing but itself.
func imageOfOne(sort, path string, text []byte) *image {
	i := &image{sort: sort, files: map[string][]byte{}}
	i.put(path, text)
	return i
}

// put adds a file, and get is the text of one.
func (i *image) put(path string, text []byte) {
	i.files[strings.TrimPrefix(path, "/")] = text
	i.name()
}
func (i *image) get(path string) []byte { return i.files[strings.TrimPrefix(path, "/")] }

func (i *image) name() { i.ref = "lockpick-" + i.sort + ":" + i.sum() }

// add adds a file of the machine's with its interpreter and its libraries.
func (i *image) add(path string) error {
	inside := strings.TrimPrefix(path, "/")
	if i.files[inside] != nil {
		return nil
	}
	text, err := files.Read(path, mostProgram)
	if err != nil {
		return err
	}
	i.files[inside] = text
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s is no program that Linux runs by itself: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		loader, err := io.ReadAll(p.Open())
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if err := i.add(strings.TrimRight(string(loader), "\x00")); err != nil {
			return err
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, name := range libraries {
		lib, err := findLibrary(name)
		if err != nil {
			return fmt.Errorf("%s needs %w", path, err)
		}
		if err := i.add(lib); err != nil {
			return err
		}
	}
	return nil
}

// libraryDirs is where the loader looks by itself.
var libraryDirs = []string{"/lib/*-linux-gnu", "/usr/lib/*-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"}

func findLibrary(name string) (string, error) {
	for _, dir := range libraryDirs {
		if found, _ := filepath.Glob(filepath.Join(dir, name)); len(found) > 0 {
			return found[0], nil
		}
	}
	return "", fmt.Errorf("%s, which is in none of %s", name, strings.Join(libraryDirs, ", "))
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

// write writes it as a tar stream.
func (i *image) write(w io.Writer) error {
	t := tar.NewWriter(w)
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o777}); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(i.files)) {
		text := i.files[path]
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o755, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := t.Write(text); err != nil {
			return err
		}
	}
	return t.Close()
}

// provide sees to it that the engine has the image.
func (i *image) provide(ctx context.Context, e *engine, owner string) error {
	has, err := e.hasImage(ctx, i.ref)
	if err != nil || has {
		return err
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(i.write(in)) }()
	err = e.importImage(ctx, i.ref, out, map[string]string{ownerLabel: owner, imageLabel: i.sort})
	out.Close() // or the writer would wait for an engine that has given up
	if err != nil {
		return fmt.Errorf("import image %s: %w", i.ref, err)
	}
	return nil
}
