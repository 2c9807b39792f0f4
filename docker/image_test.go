//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestImageContainsProgramAndLibraries(t *testing.T) {
	i, err := newImage("test", "/bin/sh", "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := i.write(&stream); err != nil {
		t.Fatal(err)
	}
	names := ""
	for r := tar.NewReader(&stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names += h.Name + "\n"
	}
	for _, want := range []string{"bin/sh\n", "tmp/\n", "libc"} {
		if !strings.Contains(names, want) {
			t.Errorf("image does not contain %q:\n%s", want, names)
		}
	}
	other, err := newImage("test", "/bin/cat", "/bin/cat")
	if err != nil {
		t.Fatal(err)
	}
	if second, _ := newImage("test", "/bin/sh", "/bin/sh"); second.ref != i.ref || other.ref == i.ref {
		t.Errorf("images of the same program are %s and %s; image of another program is %s", i.ref, second.ref, other.ref)
	}
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := newImage("test", script, script); err == nil || !strings.Contains(err.Error(), script) {
		t.Errorf("for a script, newImage returned %v", err)
	}
}
