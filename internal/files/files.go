// Package files opens, creates and cleans up files that others may have modified: runs and
// scenarios may come from untrusted sources, and a store may be shared.
//
// Open and Read accept only regular files of limited size: a pipe may block forever, and a device
// never ends. A Folder is a directory for reading and writing files that no link can escape from.
// Written files appear under their final names once they are complete.
//
// An Owner identifies a process among all processes that have ever run, by its PID and start time.
// An ownedKind gives files and folders names that identify the process that created them, and
// removes them when this process is dead: Temporary ones below the system's temporary directory,
// Unfinished ones in a store. A name proves nothing, because others can write to a shared
// directory. Therefore only this user's files and folders are removed, and no links are followed.
//
// Remedy suggests what to do if the machine runs out of disk space, open files or processes, or if
// a folder is not writable.
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

// InvalidFileError reports that a file was not read or written because it is not a regular file, is
// too large, or is outside its directory.
type InvalidFileError struct{ Path, Problem string }

func (u *InvalidFileError) Error() string { return u.Path + " " + u.Problem }

func invalidFile(path, format string, args ...any) error {
	return &InvalidFileError{path, fmt.Sprintf(format, args...)}
}

// Open opens a regular file of at most limit bytes for reading. It follows links, because the path
// comes from the caller, not from data.
func Open(path string, limit int64) (*os.File, error) {
	f, err := os.OpenFile(path, openFlags, 0)
	return checkFile(path, limit, f, err)
}

// openFlags makes opening a pipe return without waiting for a writer.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// checkFile returns an opened file if it is regular and not too large. Otherwise it closes the
// file.
func checkFile(name string, limit int64, f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, withPath(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = invalidFile(name, "is not a regular file")
	case info.Size() > limit:
		err = invalidFile(name, "has %d bytes; the limit is %d", info.Size(), limit)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// OpenOutput opens or creates a file named by the user, for writing. The file may be a device or a
// pipe. Opening a pipe without a reader fails immediately.
func OpenOutput(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK|flags, 0o644)
}

// Read returns the contents of a file that Open accepts. It fails if the file grows beyond the
// limit in the meantime.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path, limit)
	return readAll(f, err, path, limit)
}

func readAll(f *os.File, err error, name string, limit int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(text)) > limit:
		return nil, invalidFile(name, "has more than %d bytes", limit)
	}
	return text, nil
}

// maxObjects limits the number of objects in a JSON text. An empty object has three bytes, but may
// take up hundreds of bytes in memory.
const maxObjects = 200_000

// JSON decodes text, which must contain exactly one JSON value.
func JSON(text []byte, into any, options ...func(*json.Decoder)) error {
	if n := bytes.Count(text, []byte("{")); n > maxObjects {
		return fmt.Errorf("it contains %d objects; the limit is %d", n, maxObjects)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for _, o := range options {
		o(d)
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the JSON value")
	}
	return nil
}

// Folder is an open directory. Names that lead out of it, through links or "..", can't be opened.
type Folder struct {
	root *os.Root
	path string
}

// OpenFolder opens a directory. If the last part of the path is a link, such as `latest`, its
// target must be in the same parent directory.
func OpenFolder(path string) (*Folder, error) { return openFolder(path, false) }

// MakeFolder is like OpenFolder, but creates the directory if it does not exist. The directory must
// not be a link, and its parent must exist.
func MakeFolder(path string) (*Folder, error) { return openFolder(path, true) }

func openFolder(path string, create bool) (*Folder, error) {
	parent, name := filepath.Split(filepath.Clean(path))
	if name == "" || name == "." || name == ".." { // no last part that could be a link
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		return &Folder{root, path}, nil
	}
	parentRoot, err := os.OpenRoot(cmp.Or(parent, "."))
	if err != nil {
		return nil, err
	}
	defer parentRoot.Close()
	in := &Folder{parentRoot, parent}
	if create {
		return in.Sub(name)
	}
	root, err := parentRoot.OpenRoot(name)
	if err != nil {
		return nil, withPath(path, err)
	}
	return &Folder{root, path}, nil
}

// Sub opens a subfolder, and creates it if it does not exist. It must not be a link.
func (f *Folder) Sub(name string) (*Folder, error) {
	path := f.join(name)
	if err := f.root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, withPath(path, err)
	}
	info, err := f.root.Lstat(name)
	switch {
	case err != nil:
		return nil, withPath(path, err)
	case !info.IsDir():
		return nil, invalidFile(path, "is not a directory, or is a link to one")
	}
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, withPath(path, err)
	}
	return &Folder{root, path}, nil
}

func (f *Folder) Close() error { return f.root.Close() }

func (f *Folder) join(name string) string { return filepath.Join(f.path, name) }

// Open opens a file in the folder, like the function Open.
func (f *Folder) Open(name string, limit int64) (*os.File, error) {
	file, err := f.root.OpenFile(name, openFlags, 0)
	return checkFile(f.join(name), limit, file, err)
}

// Read reads a file in the folder, like the function Read.
func (f *Folder) Read(name string, limit int64) ([]byte, error) {
	file, err := f.Open(name, limit)
	return readAll(file, err, f.join(name), limit)
}

// ReadIn reads one file in a folder, like Folder.Read.
func ReadIn(folder, name string, limit int64) ([]byte, error) {
	f, err := OpenFolder(folder)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Read(name, limit)
}

// WriteIn writes one file in a folder, like Folder.Write.
func WriteIn(folder, name string, text []byte) error {
	f, err := OpenFolder(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Write(name, text)
}

// Create creates a file that must not exist yet, for writing in several steps.
func (f *Folder) Create(name string) (*os.File, error) {
	file, err := f.root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return file, withPath(f.join(name), err)
}

// Write writes a file, which appears under its name once it is complete. It replaces any existing
// file or link of that name.
func (f *Folder) Write(name string, text []byte) error {
	return f.WriteFunc(name, func(to io.Writer) error { _, err := to.Write(text); return err })
}

// WriteFunc is like Write, for contents that are produced in several steps.
func (f *Folder) WriteFunc(name string, write func(to io.Writer) error) error {
	tempName, err := Unfinished.Name()
	if err != nil {
		return fmt.Errorf("write %s: %w", f.join(name), err)
	}
	tmp := filepath.Join(filepath.Dir(name), tempName)
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
		return withPath(f.join(name), err)
	}
	return nil
}

// Remove removes a file or an empty folder.
func (f *Folder) Remove(name string) error { return withPath(f.join(name), f.root.Remove(name)) }

// Has reports whether the folder contains a regular file with this name.
func (f *Folder) Has(name string) bool {
	info, err := f.root.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// Entries lists the folder's entries, sorted by name.
func (f *Folder) Entries() ([]fs.DirEntry, error) { return f.EntriesOf(".") }

// EntriesOf lists the entries of a subfolder.
func (f *Folder) EntriesOf(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.root.FS(), name) }

// Measure returns the total size of the files in a subfolder, and the time of the last change to
// any of these files or their folders. Entries that are removed in the meantime do not count.
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
	return sum, last, withPath(f.join(name), err)
}

// withPath replaces the path in an error with the path that the user knows. For a path that escapes
// from its folder it returns an InvalidFileError, because package os has no error value for this
// case.
func withPath(path string, err error) error {
	var p *fs.PathError
	switch {
	case !errors.As(err, &p):
		return err
	case strings.Contains(p.Err.Error(), "escapes"):
		return invalidFile(path, "is outside its directory")
	}
	return fmt.Errorf("%s %s: %w", strings.TrimSuffix(p.Op, "at"), path, p.Err)
}

// CreateUnique creates the folder STORE/SHELF/NAME, or NAME-2 and so on if the name is taken. The
// folder appears under its name once fill has written its contents. The link `latest` beside it
// then points to it. On systems that can't create links, there is no `latest`.
func CreateUnique(store, shelf, name string, fill func(dir string) error) (dir string, err error) {
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
	temp, err := Unfinished.Name()
	if err != nil {
		return fail(err)
	}
	if err := in.root.Mkdir(temp, 0o755); err != nil {
		return fail(err)
	}
	defer in.root.RemoveAll(temp) // has another name by then, unless something failed
	if err := fill(in.join(temp)); err != nil {
		return "", err
	}
	err = fs.ErrExist
	for n := 1; n <= 1000 && errors.Is(err, fs.ErrExist); n++ {
		dir = name
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		if _, free := in.root.Lstat(dir); free != nil {
			err = in.root.Rename(temp, dir) // renaming to the name of a folder that isn't empty fails, so only one process gets a name
		}
	}
	if err != nil {
		return fail(err)
	}
	link, err := Unfinished.Name()
	if err == nil && in.root.Symlink(dir, link) == nil && in.root.Rename(link, latest) != nil {
		in.root.Remove(link)
	}
	return in.join(dir), nil
}

// latest is a link to the folder that CreateUnique created last.
const latest = "latest"

// RemoveUnique removes the folders STORE/SHELF/NAME, for each of names. It renames each one first,
// so that a half-removed folder is never seen under its name. Then it makes `latest` point to the
// last remaining folder, or removes the shelf if it is empty. isUnique reports whether a name may
// belong to a folder that CreateUnique created.
func RemoveUnique(store, shelf string, names []string, isUnique func(name string) bool) error {
	parent := filepath.Join(store, shelf)
	fail := func(err error) error { return fmt.Errorf("remove from %s: %w", parent, err) }
	in, err := OpenFolder(parent)
	if err != nil {
		return fail(err)
	}
	defer in.Close()
	for _, name := range names {
		temp, err := Unfinished.Name()
		if err != nil {
			return fail(err)
		}
		err = in.root.Rename(name, temp)
		if err = cmp.Or(err, in.root.RemoveAll(temp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(withPath(in.join(name), err))
		}
	}
	entries, err := in.Entries()
	if err != nil {
		return fail(err)
	}
	last, hasOthers := "", false
	for _, e := range entries {
		if e.IsDir() && isUnique(e.Name()) {
			last = e.Name()
		} else if e.Name() != latest {
			hasOthers = true
		}
	}
	switch to, err := in.root.Readlink(latest); {
	case err != nil || to == last: // no link, because none can be created here
	case last != "":
		if err := cmp.Or(in.root.Remove(latest), in.root.Symlink(last, latest)); err != nil {
			return fail(err)
		}
	default:
		if err := in.root.Remove(latest); err != nil {
			return fail(err)
		}
	}
	if last == "" && !hasOthers {
		os.Remove(parent) // fails if it is not empty: another process has started a run
	}
	return nil
}

// Settings that choose a folder.
const (
	TempDirHint = "TMPDIR"  // for data of one run
	StoreHint   = "--store" // for permanent data
)

// shortage pairs an errno that indicates an exhausted resource with the remedy.
type shortage struct {
	errno       syscall.Errno
	messages    []string // messages of Go's runtime and of other programs, in addition to errno's text
	remedy      string
	folderHelps bool // choosing another folder would help
}

// shortages lists the errors that always indicate a shortage. If the text of one is a prefix of
// another's, the longer one comes first.
var shortages = []shortage{
	{errno: syscall.ENOSPC, remedy: "make room on that file system", folderHelps: true},
	{errno: syscall.EDQUOT, remedy: "remove some of your files there: your quota is used up", folderHelps: true},
	{errno: syscall.EROFS, remedy: "make that file system writable", folderHelps: true},
	{errno: syscall.EFBIG, remedy: "allow larger files: ulimit -f"},
	{errno: syscall.ENFILE, remedy: "close programs with many open files, or allow more: sysctl fs.file-max"},
	{errno: syscall.EMFILE, messages: []string{"increase your open file limit"}, remedy: "allow more open files: ulimit -n; or use fewer clients"},
	{errno: syscall.EAGAIN, messages: []string{"failed to create new os thread"},
		remedy: "allow more processes: ulimit -u, or the pids limit of the container; or use fewer clients"},
	{errno: syscall.ENOMEM, messages: []string{"out of memory", "failed to reserve", "cannot reserve arena"},
		remedy: "allow more memory: ulimit -v, or the memory limit of the container; or use fewer clients"},
}

// Remedy suggests how to fix an error caused by a shortage or by a folder that is not writable. It
// returns "" for any other error. folder is the setting that chooses the folder: TempDirHint,
// StoreHint or "".
func Remedy(err error, folder string) string {
	if err == nil {
		return ""
	}
	for _, s := range shortages {
		if errors.Is(err, s.errno) {
			return s.withFolder(folder)
		}
	}
	if text := deniedRemedy(err, folder); text != "" {
		return text
	}
	// Errors from other programs are available only as text. If such an error is about a folder that
	// can't be chosen here, such as a container engine's, choosing another folder does not help.
	message := strings.ToLower(err.Error())
	for _, s := range shortages {
		if !slices.ContainsFunc(append(s.messages, s.errno.Error()), func(t string) bool { return strings.Contains(message, t) }) {
			continue
		}
		if !strings.Contains(message, strings.ToLower(tempDir())) {
			folder = ""
		}
		return s.withFolder(folder)
	}
	return ""
}

func (s shortage) withFolder(folder string) string {
	if !s.folderHelps || folder == "" {
		return s.remedy
	}
	return fmt.Sprintf("%s, or use %s to choose a folder on another one", s.remedy, folder)
}

// deniedRemedy suggests what to do about a folder that is missing or not writable. For other paths,
// the same errors mean something else, such as a missing program.
func deniedRemedy(err error, folder string) string {
	pathErr, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return ""
	}
	if folder == TempDirHint && pathErr.Path != tempDir() && !strings.HasPrefix(pathErr.Path, tempDir()+string(filepath.Separator)) {
		return ""
	}
	switch {
	case errors.Is(pathErr, fs.ErrNotExist), errors.Is(pathErr, syscall.ENOTDIR):
		return fmt.Sprintf("use %s to choose a folder that exists", folder)
	case errors.Is(pathErr, fs.ErrPermission):
		return fmt.Sprintf("use %s to choose a folder that you can write to", folder)
	}
	return ""
}

func tempDir() string { return filepath.Clean(os.TempDir()) }
