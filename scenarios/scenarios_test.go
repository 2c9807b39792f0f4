package scenarios

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
)

func TestNamesMatchFiles(t *testing.T) {
	files, err := fs.Glob(Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var inFiles []string
	for _, f := range files {
		inFiles = append(inFiles, strings.TrimSuffix(f, ".yaml"))
	}
	inOrder := Names()
	slices.Sort(inOrder)
	slices.Sort(inFiles)
	if !slices.Equal(inOrder, inFiles) {
		t.Errorf("Names: %v\nfiles: %v", inOrder, inFiles)
	}
}

func TestRead(t *testing.T) {
	for _, name := range Names() {
		data, err := Read(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), "\nname: "+name+"\n") {
			t.Errorf("%s.yaml has a different name", name)
		}
		if !strings.HasPrefix(string(data), "# ") {
			t.Errorf("%s.yaml does not start with a drawing of its timeline", name)
		}
	}
	if _, err := Read("../go"); err == nil {
		t.Error("Read accepts a name that is not in the catalog")
	}
}
