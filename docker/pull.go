//go:build linux

package docker

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// mostConfig bounds the files that docker's own client has left.
const mostConfig = 4 << 20

// login is how a registry is to know us; the zero value: not at all.
type login struct{ host, user, password string }

// hub is the registry of names without one, and hubKey what the docker command
// calls it in its file.
const (
	hub    = "docker.io"
	hubKey = "https://index.docker.io/v1/"
)

// registryOf is the registry of an image's name: what stands before the first slash, if
// it can't be a user's name there.
func registryOf(ref string) string {
	host, _, ok := strings.Cut(ref, "/")
	if !ok || host != "localhost" && !strings.ContainsAny(host, ".:") {
		return hub
	}
	return host
}

// loginFor reads what docker login has left in its file for an image's registry. Stores
// of credentials, which are programs of their own, are not asked.
func loginFor(ref string) (login, error) {
	dir, err := configDir()
	if err != nil {
		return login{}, nil // nobody has logged in
	}
	path := filepath.Join(dir, "config.json")
	var file struct {
		Auths map[string]struct{ Auth string }
	}
	switch err := readJSON(path, &file); {
	case errors.Is(err, fs.ErrNotExist):
		return login{}, nil
	case err != nil:
		return login{}, fmt.Errorf("read logins: %w", err)
	}
	host := registryOf(ref)
	keys := []string{host, "https://" + host, "http://" + host}
	if host == hub {
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
			return login{}, fmt.Errorf("read logins of %s: what it has for %s is no user and password; docker login %s writes it anew", path, key, host)
		}
		return login{host: host, user: user, password: strings.TrimRight(password, "\x00")}, nil
	}
	return login{}, nil
}

// sayEvery is how often a long pull says how far it is.
const sayEvery = 5 * time.Second

// progress says at times how far a pull is.
func progress(ref string, say func(string)) func(done, all int64) {
	last := time.Now()
	return func(done, all int64) {
		if time.Since(last) >= sayEvery {
			last = time.Now()
			say(fmt.Sprintf("pulling %s: %d of %d MB", ref, done/1e6, all/1e6))
		}
	}
}
