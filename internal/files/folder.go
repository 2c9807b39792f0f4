package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Folder is a directory as a root: names in it that lead out, by links or by "..", can't
// be opened.
type Folder struct {
	root *os.Root
	path string
}

// OpenFolder opens a directory. Where the last part of the path is a link, as `latest`
// is, it has to lead to somewhere beside it.
func OpenFolder(path string) (*Folder, error) { return folder(path, false) }

// MakeFolder is OpenFolder that makes the directory where there is none, and takes no
// link for one. What it lies in must be there.
func MakeFolder(path string) (*Folder, error) { return folder(path, true) }

func folder(path string, create bool) (*Folder, error) {
	parent, name := filepath.Split(filepath.Clean(path))
	if name == "" || name == "." || name == ".." { // it has no name that could be a link
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		return &Folder{root, path}, nil
	}
	above, err := os.OpenRoot(cmp.Or(parent, "."))
	if err != nil {
		return nil, err
	}
	defer above.Close()
	in := &Folder{above, parent}
	if create {
		return in.Sub(name)
	}
	root, err := above.OpenRoot(name)
	if err != nil {
		return nil, told(path, err)
	}
	return &Folder{root, path}, nil
}

// Sub opens a folder in this one, and makes it where there is none. A link is no folder.
func (f *Folder) Sub(name string) (*Folder, error) {
	path := f.of(name)
	if err := f.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, told(path, err)
	}
	info, err := f.root.Lstat(name)
	switch {
	case err != nil:
		return nil, told(path, err)
	case !info.IsDir():
		return nil, unfit(path, "is no directory, or a link to one")
	}
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, told(path, err)
	}
	return &Folder{root, path}, nil
}

// Close lets go of the folder.
func (f *Folder) Close() error { return f.root.Close() }

func (f *Folder) of(name string) string { return filepath.Join(f.path, name) }

// Open is Open in the folder.
func (f *Folder) Open(name string, most int64) (*os.File, error) {
	file, err := f.root.OpenFile(name, atOnce, 0)
	return fit(f.of(name), most, file, err)
}

// Read is Read in the folder.
func (f *Folder) Read(name string, most int64) ([]byte, error) {
	file, err := f.Open(name, most)
	return all(file, err, f.of(name), most)
}

// ReadIn is Read in a folder that is asked for nothing else.
func ReadIn(folder, name string, most int64) ([]byte, error) {
	f, err := OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(name, most)
}

// WriteIn is Write in a folder that is asked for nothing else.
func WriteIn(folder, name string, text []byte) error {
	f, err := OpenFolder(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Write(name, text)
}

// Create makes a file that is not there yet, to be written bit by bit.
func (f *Folder) Create(name string) (*os.File, error) {
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return file, told(f.of(name), err)
}

// Write writes a file that appears under its name when it is whole. It replaces what had the
// name before, a link too.
func (f *Folder) Write(name string, text []byte) error {
	return f.WriteBy(name, func(to io.Writer) error { _, err := to.Write(text); return err })
}

// WriteBy is Write of what is not at hand as a whole.
func (f *Folder) WriteBy(name string, write func(to io.Writer) error) error {
	own, err := Unfinished.Name()
	if err != nil {
		return fmt.Errorf("write %s: %w", f.of(name), err)
	}
	tmp := filepath.Join(filepath.Dir(name), own)
	file, err := f.Create(tmp)
	if err != nil {
		return err
	}
	err = write(file)
	if err = cmp.Or(err, file.Close()); err == nil {
		err = f.root.Rename(tmp, name)
	}
	if err != nil {
		f.root.Remove(tmp)
		return told(f.of(name), err)
	}
	return nil
}

// Remove removes a file, or an empty folder.
func (f *Folder) Remove(name string) error { return told(f.of(name), f.root.Remove(name)) }

// Has reports whether a name in the folder stands for a regular file.
func (f *Folder) Has(name string) bool {
	info, err := f.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// Entries lists what lies in the folder, by name.
func (f *Folder) Entries() ([]fs.DirEntry, error) { return f.EntriesOf(".") }

// EntriesOf lists what lies in a folder of this one.
func (f *Folder) EntriesOf(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.root.FS(), name) }

// Measure is how many bytes the files in a folder of this one have, and when the last of
// them, or of its folders, was written to. What somebody removes meanwhile does not count.
func (f *Folder) Measure(name string) (sum int64, last time.Time, err error) {
	err = fs.WalkDir(f.root.FS(), filepath.ToSlash(name), func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode().IsRegular():
			sum += info.Size()
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		return nil
	})
	return sum, last, told(f.of(name), err)
}

// told is an error with the path that its reader knows, not the part of it that a
// folder was asked for. For a way out of a folder package os has words only.
func told(path string, err error) error {
	var p *fs.PathError
	switch {
	case !errors.As(err, &p):
		return err
	case strings.Contains(p.Err.Error(), "escapes"):
		return unfit(path, "leads out of its directory")
	}
	return fmt.Errorf("%s %s: %w", strings.TrimSuffix(p.Op, "at"), path, p.Err)
}
