package engine

import (
	"archive/tar"
	"strings"
)

// TarFile writes a file, as a program may be, to an archive.
func TarFile(t *tar.Writer, path string, text []byte) error {
	err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755, Size: int64(len(text))})
	if err == nil {
		_, err = t.Write(text)
	}
	return err
}

// FirstLine is the first line of what an error says.
func FirstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return strings.TrimSuffix(text, ":")
}
