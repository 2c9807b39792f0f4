//go:build linux

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// endpointError says why there is no engine to work with, and what to do.
type endpointError struct {
	error
	Remedy string
}

func (a *endpointError) Unwrap() error { return a.error }

// UsualSocket is where an engine listens unless told otherwise.
const UsualSocket = "/var/run/docker.sock"

const (
	hostOfContext = "export DOCKER_HOST=$(docker context inspect -f '{{.Endpoints.docker.Host}}')"

	// StartEngine is what to do where nothing listens at a socket.
	StartEngine = "start an engine (apt-get install docker.io; dockerd &), or use the docker command's: " + hostOfContext
)

// findHost returns the address in DOCKER_HOST, or else that of this machine's socket. It refuses ssh://
// addresses and DOCKER_CONTEXT: ignoring them would select another engine than the user meant.
func findHost() (string, error) {
	host, context := os.Getenv("DOCKER_HOST"), os.Getenv("DOCKER_CONTEXT")
	switch {
	case strings.HasPrefix(host, "ssh://"):
		return "", &endpointError{errors.New("DOCKER_HOST is an ssh:// address, and lockpick does not log in by SSH"),
			"ssh -NL 127.0.0.1:2375:" + UsualSocket + " USER@HOST, and meanwhile export DOCKER_HOST=tcp://127.0.0.1:2375"}
	case host != "":
		return host, nil
	case context != "" && context != "default":
		return "", &endpointError{fmt.Errorf("DOCKER_CONTEXT is %s, and lockpick goes by DOCKER_HOST alone", context), hostOfContext}
	}
	return "unix://" + socket(UsualSocket), nil
}

// socket is where an engine of this machine listens: a rootless one, if there is no other.
func socket(usual string) string {
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

// silent says what to do about an engine that has not answered.
func (e *Engine) silent(err error) error {
	remedy := "let an engine listen there, or set DOCKER_HOST to another"
	switch {
	case e.isSocket() && errors.Is(err, fs.ErrPermission):
		path := strings.TrimPrefix(e.Host, "unix://")
		remedy = "run lockpick in the socket's group: newgrp docker; in a container: --group-add $(stat -c %g " + path + ")"
	case e.isSocket():
		remedy = StartEngine
	}
	return &endpointError{fmt.Errorf("no Docker engine answers at %s: %w", e.Host, err), remedy}
}

// isSocket says whether it is a socket of this machine. The engine behind it may still
// be in a virtual machine.
func (e *Engine) isSocket() bool { return strings.HasPrefix(e.Host, "unix://") }

// IsHere reports whether the engine is known to be on this machine: it has a local socket and runs
// our kernel. If not, it may still be here.
func (e *Engine) IsHere(a About) bool {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && e.isSocket() && strings.TrimSpace(string(kernel)) == a.Kernel
}

// SharesFiles says whether the engine's process has the root directory that we have, and
// so the same files. In a container with its socket we have others, though it is here.
func (e *Engine) SharesFiles() bool {
	conn, err := net.Dial("unix", strings.TrimPrefix(e.Host, "unix://"))
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
