//go:build linux

package engine

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"lockpick/harness/files"
)

// mostConfig bounds the files that docker's own client has left.
const mostConfig = 4 << 20

// Endpoint is where an engine listens, and what says so.
type Endpoint struct {
	Context string      // its name
	source  string      // what says so: a variable of the environment, or a file
	Host    string      // as in unix:///var/run/docker.sock
	Tls     *tls.Config // nil: in the clear
	certs   string      // directory of what is in tls
}

func (p Endpoint) String() string {
	return fmt.Sprintf("%s (context %s, from %s)", p.Host, p.Context, p.source)
}

// endpointError says why it is not known where the engine is, and what to do.
type EndpointError struct {
	error
	Remedy string
}

func (a *EndpointError) Unwrap() error { return a.error }

// isSocket says whether it is a socket of this machine. The engine behind it may still
// be in a virtual machine.
func (p Endpoint) isSocket() bool { return strings.HasPrefix(p.Host, "unix://") }

// SharesFiles says whether the engine's process has the root directory that we have, and
// so the same files. In a container with its socket we have others, though it is here.
func (p Endpoint) SharesFiles() bool {
	conn, err := net.Dial("unix", strings.TrimPrefix(p.Host, "unix://"))
	if err != nil {
		return false
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return false
	}
	var peer *syscall.Ucred // its process is 0 where it is in no namespace that we see
	failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if failed != nil || err != nil {
		return false
	}
	theirs, err := os.Stat(fmt.Sprintf("/proc/%d/root", peer.Pid))
	if err != nil {
		return false
	}
	ours, err := os.Stat("/")
	return err == nil && os.SameFile(ours, theirs)
}

// silent says what to do about an engine that has not answered.
func (p Endpoint) silent(err error) error {
	a := &EndpointError{fmt.Errorf("no Docker engine answers at %s: %w", p, err), "let an engine listen there, or see DOCKER_HOST and docker context ls"}
	switch text := err.Error(); {
	case p.isSocket():
		a.Remedy = StartEngine
	case strings.HasPrefix(p.Host, "ssh://"):
		a.Remedy = "try: docker --host " + p.Host + " version"
	case p.Tls != nil && (strings.Contains(text, "tls: ") || strings.Contains(text, "x509: ")):
		a.Remedy = "let ca.pem, cert.pem and key.pem in " + p.certs + " be what the engine trusts"
	case p.Tls == nil && strings.Contains(text, "HTTP request to an HTTPS server"):
		a.Remedy = "it wants TLS: set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH, or give the context certificates"
	}
	return a
}

const (
	defaultContext = "default"
	UsualSocket    = "/var/run/docker.sock"
)

// find finds the engine that the docker command would talk to: that of DOCKER_HOST;
// else of the context that DOCKER_CONTEXT names, or the docker command's
// configuration; else of the usual socket. Unlike the docker command, it looks for
// the socket of a rootless engine too, and does not pass over a configuration that it
// can't read, for then it would take another engine than was meant.
func Find() (Endpoint, error) {
	if os.Getenv("DOCKER_HOST") != "" {
		return direct("DOCKER_HOST")
	}
	dir, err := configDir()
	if err != nil {
		return Endpoint{}, err
	}
	name, says := os.Getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if name == "" {
		says = filepath.Join(dir, "config.json")
		var config struct{ CurrentContext string }
		if err := readJSON(says, &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Endpoint{}, &EndpointError{err, "mend " + says + ", or set DOCKER_HOST"}
		}
		name = config.CurrentContext
	}
	if name == "" || name == defaultContext {
		return direct("its usual place")
	}
	p, err := stored(filepath.Join(dir, "contexts"), name)
	if err != nil {
		return p, &EndpointError{fmt.Errorf("use context %q of %s: %w", name, says, err), "docker context ls; then set DOCKER_CONTEXT, or docker context use"}
	}
	return p, nil
}

func configDir() (string, error) {
	if dir := os.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", &EndpointError{fmt.Errorf("find the docker command's configuration: %w", err), "set HOME, DOCKER_CONFIG or DOCKER_HOST"}
	}
	return filepath.Join(home, ".docker"), nil
}

// direct is the engine that no stored context describes.
func direct(source string) (p Endpoint, err error) {
	p = Endpoint{Context: defaultContext, source: source, Host: os.Getenv("DOCKER_HOST")}
	verify := os.Getenv("DOCKER_TLS_VERIFY") != ""
	secure := verify || os.Getenv("DOCKER_TLS") != ""
	if p.Host == "" && secure {
		p.Host, p.source = "tcp://localhost:2376", "DOCKER_TLS_VERIFY without DOCKER_HOST"
	}
	if p.Host, err = normal(p.Host); err != nil {
		return p, &EndpointError{fmt.Errorf("read DOCKER_HOST: %w", err), "set it as in unix:///var/run/docker.sock, tcp://host:2376 or ssh://user@host"}
	}
	if !secure || !strings.HasPrefix(p.Host, "tcp:") {
		return p, nil
	}
	if p.certs = os.Getenv("DOCKER_CERT_PATH"); p.certs == "" {
		if p.certs, err = configDir(); err != nil {
			return p, err
		}
	}
	p.Tls, err = credentials(p.certs, !verify)
	if err == nil && (p.Tls == nil || p.Tls.RootCAs == nil) {
		err = fmt.Errorf("there is no %s", filepath.Join(p.certs, "ca.pem"))
	}
	if err != nil {
		return p, &EndpointError{fmt.Errorf("talk TLS to %s: %w", p.Host, err), "let DOCKER_CERT_PATH be the directory of ca.pem, cert.pem and key.pem"}
	}
	return p, nil
}

// stored reads a context out of the docker command's store:
//
//	contexts/meta/SUM/meta.json
//	contexts/tls/SUM/docker/{ca,cert,key}.pem
//
// where SUM is the sha256 of its name.
func stored(dir, name string) (p Endpoint, err error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	p = Endpoint{Context: name, source: filepath.Join(dir, "meta", id, "meta.json"), certs: filepath.Join(dir, "tls", id, "docker")}
	var meta struct {
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	err = readJSON(p.source, &meta)
	if errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("there is no such context in %s, but %s", dir, strings.Join(contexts(dir), ", "))
	}
	if err != nil {
		return p, err
	}
	docker, ok := meta.Endpoints["docker"]
	if !ok {
		return p, fmt.Errorf("%s has no endpoint of docker", p.source)
	}
	if p.Host, err = normal(docker.Host); err != nil {
		return p, fmt.Errorf("read %s: %w", p.source, err)
	}
	if strings.HasPrefix(p.Host, "tcp:") {
		p.Tls, err = credentials(p.certs, docker.SkipTLSVerify)
	}
	return p, err
}

func contexts(dir string) []string {
	names := []string{defaultContext}
	files, _ := filepath.Glob(filepath.Join(dir, "meta", "*", "meta.json"))
	for _, f := range files {
		var meta struct{ Name string }
		if readJSON(f, &meta) == nil && meta.Name != "" {
			names = append(names, meta.Name)
		}
	}
	slices.Sort(names[1:])
	return names
}

// credentials reads the certificates in a directory; nil: there are none, and
// nothing is to be encrypted.
func credentials(dir string, blind bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: blind}
	used := blind
	ca := filepath.Join(dir, "ca.pem")
	switch text, err := files.Read(ca, mostConfig); {
	case err == nil:
		used, c.RootCAs = true, x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read %s: it has no certificate", ca)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if exists(cert) || exists(key) {
		pair, err := keyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("read %s and key.pem: %w", cert, err)
		}
		used, c.Certificates = true, []tls.Certificate{pair}
	}
	if !used {
		return nil, nil
	}
	return c, nil
}

func keyPair(cert, key string) (tls.Certificate, error) {
	public, err := files.Read(cert, mostConfig)
	if err != nil {
		return tls.Certificate{}, err
	}
	private, err := files.Read(key, mostConfig)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(public, private)
}

// normal says in full where an engine listens.
func normal(host string) (string, error) {
	host = strings.TrimSpace(host)
	scheme, addr, ok := strings.Cut(host, "://")
	if !ok {
		scheme, addr = "tcp", host
	}
	switch {
	case host == "" || scheme == "unix" && addr == "":
		return "unix://" + Socket(UsualSocket), nil
	case scheme == "unix":
		return host, nil
	case scheme == "ssh":
		_, err := SshCommand(host)
		return host, err
	case scheme != "tcp":
		return "", fmt.Errorf("%q is none of unix://, tcp:// and ssh://", host)
	}
	u, err := url.Parse("tcp://" + addr)
	if err != nil {
		return "", err
	}
	name, port := u.Hostname(), u.Port()
	if name == "" {
		name = "localhost"
	}
	if port == "" {
		port = "2375"
	}
	return "tcp://" + net.JoinHostPort(name, port) + u.Path, nil
}

// socket is where an engine of this machine listens: a rootless one, if there is no other.
func Socket(usual string) string {
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" && !exists(usual) {
		if rootless := filepath.Join(run, "docker.sock"); exists(rootless) {
			return rootless
		}
	}
	return usual
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func readJSON(path string, into any) error {
	text, err := files.Read(path, mostConfig)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

const StartEngine = "apt-get install docker.io; dockerd &"
