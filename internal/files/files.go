// Package files opens, creates and cleans up files that others may have touched: runs and
// scenarios come from strangers, and a store may be shared.
//
// Open and Read accept only a regular file of bounded size: a pipe may never answer, and a device
// never ends. A Folder is a directory that no link leads out of, for reading or writing; what is
// written to it appears whole, under its final name.
//
// An Owner identifies a process among all that ever ran, by its pid and start time. OwnedKind gives
// files and folders names that tell which process made them, and removes those whose owner has
// died: Temporary ones below the system's temporary directory, Unfinished ones in a store. A name
// proves nothing, because others can write to a shared directory: only what belongs to this user
// counts, and no link is followed.
//
// Remedy says what to do when a machine has no space, no open files or no processes left, or when
// a folder can't be written to.
package files

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Unfit is the error about something that is not what it should be: no regular file,
// too large, or a way out of its directory. Nothing was read of it or written to it.
type Unfit struct{ Path, What string }

func (u *Unfit) Error() string { return u.Path + " " + u.What }

func unfit(path, what string, args ...any) error { return &Unfit{path, fmt.Sprintf(what, args...)} }

// Open opens a regular file of at most that many bytes for reading. It follows links, because the
// path comes from the caller, not from data.
func Open(path string, most int64) (*os.File, error) {
	f, err := os.OpenFile(path, atOnce, 0)
	return fit(path, most, f, err)
}

// atOnce opens a pipe without waiting for who writes to it.
const atOnce = os.O_RDONLY | syscall.O_NONBLOCK

// fit lets through what was opened if it is a regular file that is no larger.
func fit(name string, most int64, f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, told(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = unfit(name, "is no regular file")
	case info.Size() > most:
		err = unfit(name, "has %d bytes, and at most %d are read", info.Size(), most)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// Output opens or makes a file for writing that the user has named. It may be a device
// or a pipe; one that nobody reads is an error at once.
func Output(path string, how int) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK|how, 0o644)
}

// Read is all of what Open opens. A file that grows meanwhile is too large in the end.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	return all(f, err, path, most)
}

func all(f *os.File, err error, name string, most int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(text)) > most:
		return nil, unfit(name, "has more than %d bytes", most)
	}
	return text, nil
}

// maxObjects bounds the objects of a JSON text: an empty one is three bytes long and
// may stand for hundreds in memory.
const maxObjects = 200_000

// JSON decodes all of a text that a file had.
func JSON(text []byte, into any, options ...func(*json.Decoder)) error {
	if n := bytes.Count(text, []byte("{")); n > maxObjects {
		return fmt.Errorf("it has %d objects, and at most %d are read", n, maxObjects)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for _, o := range options {
		o(d)
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its value")
	}
	return nil
}

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

// Place makes the folder STORE/SHELF/NAME, or NAME-2 and so on where another has the name.
// It appears under its name when fill has put into it what belongs there, and `latest`
// beside it then leads to it. Where links can't be made, there is none.
func Place(store, shelf, name string, fill func(dir string) error) (dir string, err error) {
	fail := func(err error) (string, error) { return "", fmt.Errorf("create directory: %w", err) }
	if err := os.MkdirAll(store, 0o755); err != nil {
		return fail(err)
	}
	parent := filepath.Join(store, shelf)
	in, err := MakeFolder(parent)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	own, err := Unfinished.Name()
	if err != nil {
		return fail(err)
	}
	if err := in.root.Mkdir(own, 0o755); err != nil {
		return fail(err)
	}
	defer in.root.RemoveAll(own) // it has its name by then, unless something failed
	if err := fill(in.of(own)); err != nil {
		return "", err
	}
	err = fs.ErrExist
	for n := 1; n <= 1000 && errors.Is(err, fs.ErrExist); n++ {
		dir = name
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		if _, free := in.root.Lstat(dir); free != nil {
			err = in.root.Rename(own, dir) // onto a folder that isn't empty it fails, so of two that want one name one gets it
		}
	}
	if err != nil {
		return fail(err)
	}
	link, err := Unfinished.Name()
	if err == nil && in.root.Symlink(dir, link) == nil && in.root.Rename(link, latest) != nil {
		in.root.Remove(link)
	}
	return in.of(dir), nil
}

// latest is a link beside what is placed, to what was placed last.
const latest = "latest"

// Displace removes folders STORE/SHELF/NAME. Each loses its name at once, so that nobody
// meets half of it; `latest` leads to the last of those that are left then, and a shelf
// that has nothing else is removed. is tells what may have been placed there by its name.
func Displace(store, shelf string, names []string, is func(name string) bool) error {
	parent := filepath.Join(store, shelf)
	fail := func(err error) error { return fmt.Errorf("remove from %s: %w", parent, err) }
	in, err := OpenFolder(parent)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	for _, name := range names {
		own, err := Unfinished.Name()
		if err != nil {
			return fail(err)
		}
		err = in.root.Rename(name, own)
		if err = cmp.Or(err, in.root.RemoveAll(own)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(told(in.of(name), err))
		}
	}
	entries, err := in.Entries()
	if err != nil {
		return fail(err)
	}
	last, more := "", false
	for _, e := range entries {
		if e.IsDir() && is(e.Name()) {
			last = e.Name()
		} else if e.Name() != latest {
			more = true
		}
	}
	switch to, err := in.root.Readlink(latest); {
	case err != nil || to == last: // no link, as where none can be made
	case last != "":
		if err := cmp.Or(in.root.Remove(latest), in.root.Symlink(last, latest)); err != nil {
			return fail(err)
		}
	default:
		if err := in.root.Remove(latest); err != nil {
			return fail(err)
		}
	}
	if last == "" && !more {
		os.Remove(parent) // unless it is not empty: somebody has begun a run
	}
	return nil
}

// How a user names a folder.
const (
	TempDirHint = "TMPDIR"  // of what lives as long as a run
	StoreHint   = "--store" // of what stays
)

// shortage is what calls fail with where something is short.
type shortage struct {
	errno  syscall.Errno
	also   []string // what Go's runtime and other programs say of it, besides the error's own text
	remedy string
	moves  bool // another folder helps, too
}

// shortages are those that have one meaning, wherever they come from. Of two whose texts
// begin alike the longer one comes first.
var shortages = []shortage{
	{errno: syscall.ENOSPC, remedy: "make room on that file system", moves: true},
	{errno: syscall.EDQUOT, remedy: "remove some of your files there, for your quota is used up", moves: true},
	{errno: syscall.EROFS, remedy: "let that file system be writable", moves: true},
	{errno: syscall.EFBIG, remedy: "allow larger files: ulimit -f"},
	{errno: syscall.ENFILE, remedy: "end what has many files open on this machine, or allow more: sysctl fs.file-max"},
	{errno: syscall.EMFILE, also: []string{"increase your open file limit"}, remedy: "allow more open files: ulimit -n; or use fewer clients"},
	{errno: syscall.EAGAIN, also: []string{"failed to create new os thread"},
		remedy: "allow more processes: ulimit -u, or the pids limit of the container; or use fewer clients"},
	{errno: syscall.ENOMEM, also: []string{"out of memory", "failed to reserve", "cannot reserve arena"},
		remedy: "allow more memory: ulimit -v, or the memory limit of the container; or use fewer clients"},
}

// Remedy is what to do about an error that comes of what the machine is short of, or of
// a folder that can't be written to; "" for any other. The folder is one of the constants:
// how the user names the one in which this was to happen.
func Remedy(err error, folder string) string {
	if err == nil {
		return ""
	}
	for _, s := range shortages {
		if errors.Is(err, s.errno) {
			return s.say(folder)
		}
	}
	if text := denied(err, folder); text != "" {
		return text
	}
	// Another program's error is text. Where it is about a folder that nobody can choose
	// here, as an engine's own, choosing another does not help.
	said := strings.ToLower(err.Error())
	for _, s := range shortages {
		if !slices.ContainsFunc(append(s.also, s.errno.Error()), func(t string) bool { return strings.Contains(said, t) }) {
			continue
		}
		if !strings.Contains(said, strings.ToLower(temporary())) {
			folder = ""
		}
		return s.say(folder)
	}
	return ""
}

func (s shortage) say(folder string) string {
	if !s.moves || folder == "" {
		return s.remedy
	}
	return fmt.Sprintf("%s, or name a folder on another by %s", s.remedy, folder)
}

// denied is what to do about a folder that is not there or lets nobody write. Elsewhere
// the same errors mean something else, as of a program that is not there: the path tells.
func denied(err error, folder string) string {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return ""
	}
	if folder == TempDirHint && at.Path != temporary() && !strings.HasPrefix(at.Path, temporary()+string(filepath.Separator)) {
		return ""
	}
	switch {
	case errors.Is(at, fs.ErrNotExist), errors.Is(at, syscall.ENOTDIR):
		return fmt.Sprintf("name a folder that is there by %s", folder)
	case errors.Is(at, fs.ErrPermission):
		return fmt.Sprintf("name a folder that you may write to by %s", folder)
	}
	return ""
}

func temporary() string { return filepath.Clean(os.TempDir()) }
