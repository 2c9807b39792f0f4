//go:build linux

package owned

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOwnerComesBack(t *testing.T) {
	self, err := Self()
	if err != nil {
		t.Fatal(err)
	}
	if back, ok := Parse(self.String()); !ok || back != self {
		t.Errorf("%v came back as %v", self, back)
	}
	name, err := Unfinished.Name()
	if err != nil {
		t.Fatal(err)
	}
	if o, ok := Unfinished.owner(name); !ok || o != self {
		t.Errorf("%s is of %v", name, o)
	}
	for _, bad := range []string{"", "a", "a.b.c.d", "a.b.1", "a.b.1.2.3", "a.b.-1.2", "a.b.0.2", "a.b.1.-2"} {
		if o, ok := Parse(bad); ok {
			t.Errorf("%q is %v", bad, o)
		}
	}
}

// By neither way of opening a name a link is followed, or what is mounted there entered.
func TestOpenStaysInItsDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "mounted"), 0o700)); err != nil {
		t.Fatal(err)
	}
	refused := map[string]error{"real": nil, "link": unix.ENOTDIR}
	at := filepath.Join(dir, "mounted")
	if err := unix.Mount("other", at, "tmpfs", 0, ""); err == nil {
		defer unix.Unmount(at, unix.MNT_DETACH)
		refused["mounted"] = unix.EXDEV
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range refused {
		for way, open := range map[string]func(*os.File, string, int) (*os.File, error){"openat2": openIn, "openat": openHere} {
			f, err := open(d, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
			if !errors.Is(err, want) && !(want == unix.ENOTDIR && errors.Is(err, unix.ELOOP)) {
				t.Errorf("%s by %s: %v, want %v", name, way, err, want)
			}
			f.Close()
		}
	}
}
