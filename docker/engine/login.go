//go:build linux

package engine

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Login is how a registry is to know us; the zero value: not at all.
type Login struct{ host, user, password string }

// hub is the registry of names without one, and hubKey what the docker command
// calls it in its file.
const (
	Hub    = "docker.io"
	hubKey = "https://index.docker.io/v1/"
)

// RegistryOf is the registry of an image's name: what stands before the first slash, if
// it can't be a user's name there.
func RegistryOf(ref string) string {
	host, _, ok := strings.Cut(ref, "/")
	if !ok || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return Hub
	}
	return host
}

// LoginFor reads what docker login has left in its file for an image's registry. Stores
// of credentials, which are programs of their own, are not asked.
func LoginFor(ref string) (Login, error) {
	dir, err := configDir()
	if err != nil {
		return Login{}, nil // nobody has logged in
	}
	path := filepath.Join(dir, "config.json")
	var file struct {
		Auths map[string]struct{ Auth string }
	}
	switch err := readJSON(path, &file); {
	case errors.Is(err, fs.ErrNotExist):
		return Login{}, nil
	case err != nil:
		return Login{}, fmt.Errorf("read logins: %w", err)
	}
	host := RegistryOf(ref)
	keys := []string{host, "https://" + host, "http://" + host}
	if host == Hub {
		keys = append(keys, hubKey)
	}
	for _, key := range keys {
		encoded := file.Auths[key].Auth
		if encoded == "" {
			continue
		}
		plain, err := base64.StdEncoding.DecodeString(encoded)
		user, password, ok := strings.Cut(string(plain), ":")
		if err != nil || !ok {
			return Login{}, fmt.Errorf("read logins of %s: what it has for %s is no user and password; docker login %s writes it anew", path, key, host)
		}
		return Login{host: host, user: user, password: strings.TrimRight(password, "\x00")}, nil
	}
	return Login{}, nil
}

// sayEvery is how often a long pull says how far it is.
const sayEvery = 5 * time.Second

// Progress says at times how far a pull is.
func Progress(ref string, say func(string)) func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) >= sayEvery {
			last = time.Now()
			say(fmt.Sprintf("pulling %s: %d of %d MB", ref, done/1e6, all/1e6))
		}
	}
}
