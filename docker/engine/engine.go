//go:build linux

package engine

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"lockpick/internal/files"
)

// OwnerLabel is the label of everything that a run makes; its value is a files.Owner.
// ImageLabel says of an image which sort it is.
const (
	OwnerLabel = "lockpick"
	ImageLabel = "lockpick.image"
)

// Engine is the Docker engine.
type Engine struct {
	API  *client.Client
	Host string // where it listens, as in unix:///var/run/docker.sock
}

// Belonging is what the engine has with our label.
type Belonging struct {
	ID, Name, owner string
	made            time.Time
	runs            bool // a container
}

// An engine that takes connections and then says nothing has died with its socket in
// other hands, or hangs. No call is known to need as long as answerBound: what takes
// longer, as a pull or the wait for an end, begins to answer at once.
const (
	handshakeBound = 10 * time.Second
	answerBound    = 2 * time.Minute
)

// Connect finds the engine by DOCKER_HOST, and speaks the newest API that both know, or that of
// DOCKER_API_VERSION. The client's library does TLS as DOCKER_CERT_PATH and DOCKER_TLS_VERIFY say.
func Connect() (*Engine, error) {
	host, err := findHost()
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine: %w", err)
	}
	bounded := func(c *client.Client) error {
		t := c.HTTPClient().Transport.(*http.Transport)
		t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = handshakeBound, answerBound
		return nil
	}
	api, err := client.NewClientWithOpts(client.WithTLSClientConfigFromEnv(), client.WithHost(host), bounded,
		client.WithVersionFromEnv(), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine at %s: %w", host, err)
	}
	return &Engine{api, host}, nil
}

func (e *Engine) Close() error { return e.API.Close() }

// About is what the engine says of itself.
type About struct {
	Version  string
	API      string // what we speak with it
	Platform string // what its containers run on, as in linux
	Kernel   string // as in 6.1.0-50-amd64
	Arch     string // of its containers in Go's words, as in amd64
}

// About asks the engine, first of all for the API that it speaks: a question at which
// the client would pass over an error, and go on with a version of its own.
func (e *Engine) About(ctx context.Context) (About, error) {
	p, err := e.API.Ping(ctx)
	if err != nil {
		return About{}, e.silent(err)
	}
	e.API.NegotiateAPIVersionPing(p)
	v, err := e.API.ServerVersion(ctx)
	if err != nil {
		return About{}, e.silent(err)
	}
	return About{v.Version, e.API.ClientVersion(), v.Os, v.KernelVersion, v.Arch}, nil
}

func labelled(labels ...string) filters.Args {
	f := filters.NewArgs()
	for _, l := range labels {
		f.Add("label", l)
	}
	return f
}

// DataDir is where a node has its data. Few images have such a directory, and so the
// engine makes it; it lives as long as the container.
const DataDir = "/lockpick"

// Making is what a container is made of.
type Making struct {
	Name, Image, Network string
	Addr                 netip.Addr
	Command              []string
	Labels               map[string]string
	Data                 string // directory of the engine's machine that is dataDir inside; "": none
	Talks                bool   // we write to its stdin
	Sysctls              map[string]string
	Beside               string // another container, whose network it shares; "": none
	Traces               string // another, whose processes it sees, and no network; "": none
	Capability           string // of the kernel, that it has as the only one; "": none
}

func (m Making) mounts() []mount.Mount {
	if m.Data == "" {
		return nil
	}
	return []mount.Mount{{Type: mount.TypeBind, Source: m.Data, Target: DataDir}}
}

// Create makes a container that has no privilege at all, but what it is given.
func (e *Engine) Create(ctx context.Context, m Making) (id string, err error) {
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(m.Network), CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Mounts: m.mounts(), Sysctls: m.Sysctls,
		// By default the engine keeps all that a container writes on its disk.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
	}
	join := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{m.Network: fixed(m.Addr)}}
	if m.Network == "none" {
		join = nil
	}
	if m.Beside != "" {
		host.NetworkMode, join = container.NetworkMode("container:"+m.Beside), nil
	}
	if m.Traces != "" {
		host.NetworkMode, host.PidMode, join = "none", container.PidMode("container:"+m.Traces), nil
	}
	if m.Capability != "" {
		host.CapAdd = []string{m.Capability}
	}
	made, err := e.API.ContainerCreate(ctx, &container.Config{
		Image: m.Image, Entrypoint: m.Command[:1], Cmd: m.Command[1:], Labels: m.Labels,
		// Whoever the image starts its program as: root without capabilities can write to
		// what root has, as to a directory that the engine makes, and to nobody else's.
		User: "0", WorkingDir: DataDir,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the image's would be load, and ask a paused one
		OpenStdin:   m.Talks, StdinOnce: m.Talks, AttachStdin: m.Talks, AttachStdout: m.Talks, AttachStderr: m.Talks,
	}, host, join, nil, m.Name)
	return made.ID, err
}

// Put writes files, as programs may be, into a container that was not started yet.
func (e *Engine) Put(ctx context.Context, id string, files map[string][]byte) error {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for path, text := range files {
		if err := TarFile(t, path, text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return e.API.CopyToContainer(ctx, id, "/", &b, container.CopyToContainerOptions{})
}

// Away says whether an error is that no engine answers.
func Away(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// startBound is how long the engine may take to start a container. It takes tenths of a second, and
// many times that where it is very busy.
const startBound = 30 * time.Second

// Start starts a container; ended then gets its exit status, or what kept us from it.
func (e *Engine) Start(ctx context.Context, id string) (ended func() (status int64, err error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	exit, failed := e.API.ContainerWait(ctx, id, container.WaitConditionNextExit)
	limit, started := context.WithTimeout(ctx, startBound)
	defer started()
	if err := e.API.ContainerStart(limit, id, container.StartOptions{}); err != nil {
		cancel()
		return nil, err
	}
	return func() (int64, error) {
		defer cancel()
		select {
		case w := <-exit:
			return w.StatusCode, nil
		case err := <-failed:
			return 0, err
		}
	}, nil
}

// State is what the engine says of a container: its status, as in running or paused,
// and the process id of its first process on the engine's machine.
func (e *Engine) State(ctx context.Context, id string) (status string, pid int, err error) {
	is, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return "", 0, err
	}
	return is.State.Status, is.State.Pid, nil
}

// Attach joins a container's stdin, stdout and stderr, before it starts.
func (e *Engine) Attach(ctx context.Context, id string, stdout, stderr io.Writer) (in net.Conn, copyOut func() error, err error) {
	a, err := e.API.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, nil, err
	}
	return a.Conn, func() error {
		_, err := stdcopy.StdCopy(stdout, stderr, a.Reader)
		return err
	}, nil
}

// mostLogs bounds what is read of a container's log, in bytes: a line of it may have any length.
const mostLogs = 64 << 10

// Logs is the end of what a container has written.
func (e *Engine) Logs(ctx context.Context, id string) string {
	out, err := e.API.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, io.LimitReader(out, mostLogs)); err != nil && text.Len() == 0 {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}

func (e *Engine) Containers(ctx context.Context, label string) (found []Belonging, err error) {
	all, err := e.API.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled(label)})
	for _, c := range all {
		found = append(found, Belonging{c.ID, strings.Join(c.Names, " "), c.Labels[OwnerLabel], time.Unix(c.Created, 0), c.State == container.StateRunning})
	}
	return found, err
}

func (e *Engine) Remove(ctx context.Context, id string) error {
	return unlessGone(e.API.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}))
}

// unlessGone lets pass that somebody else has removed it, or is about to.
func unlessGone(err error) error {
	if errdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "already in progress") {
		return nil
	}
	return err
}

// pingBound is how long the engine may take to say that it is there.
const pingBound = 5 * time.Second

// Explain says why there is no engine, and what to do.
func Explain(err error) (reason, remedy string) {
	remedy = "set DOCKER_HOST as in unix://" + UsualSocket + " or tcp://HOST:2375"
	if a := (*endpointError)(nil); errors.As(err, &a) {
		remedy = a.Remedy
	}
	remedy = cmp.Or(files.Remedy(err, files.TempDirHint), remedy)
	return FirstLine(err), remedy
}

// Meet finds the engine, agrees with it on an API, and sees that it serves.
func Meet(ctx context.Context) (*Engine, About, error) {
	e, err := Connect()
	if err != nil {
		return nil, About{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	a, err := e.About(ctx)
	if err == nil && a.Platform != "linux" {
		err = &endpointError{fmt.Errorf("the engine's containers run on %s", a.Platform), "let the engine run Linux containers"}
	}
	if err != nil {
		return nil, About{}, errors.Join(err, e.Close())
	}
	return e, a, nil
}

// ErrOverlaps says that another network has the addresses.
var ErrOverlaps = errors.New("another network has these addresses")

// MakeNetwork makes a bridge from which nothing leads out.
func MakeNetwork(ctx context.Context, e *Engine, name string, subnet netip.Prefix, gateway netip.Addr, labels map[string]string) (id string, err error) {
	made, err := e.API.NetworkCreate(ctx, name, network.CreateOptions{
		Driver: "bridge", Internal: true, Labels: labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway.String()}}},
	})
	if err != nil && strings.Contains(err.Error(), "overlaps") {
		return "", ErrOverlaps
	}
	return made.ID, err
}

func (e *Engine) Networks(ctx context.Context, label string) (found []Belonging, err error) {
	all, err := e.API.NetworkList(ctx, network.ListOptions{Filters: labelled(label)})
	for _, n := range all {
		found = append(found, Belonging{ID: n.ID, Name: n.Name, owner: n.Labels[OwnerLabel], made: n.Created})
	}
	return found, err
}

// ErrHeld says that the engine believes that somebody is on a network. Under load some
// engines lose count of who has left.
var errHeld = errors.New("the engine takes it for used; it can be removed when the engine has been started again")

func removeNetwork(ctx context.Context, e *Engine, id string) error {
	err := unlessGone(e.API.NetworkRemove(ctx, id))
	if err != nil && strings.Contains(err.Error(), "has active endpoints") {
		return errHeld
	}
	return err
}

// fixed is an endpoint on a network, with an address of its own.
func fixed(addr netip.Addr) *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: addr.String()}}
}

// Connect puts a container on a network.
func (e *Engine) Connect(ctx context.Context, network, id string, addr netip.Addr) error {
	return e.API.NetworkConnect(ctx, network, id, fixed(addr))
}

// Pauses tells of all pauses of containers, and their ends, from now on, and why it ends.
func (e *Engine) Pauses(ctx context.Context) (<-chan events.Message, <-chan error) {
	return e.API.Events(ctx, events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionPause)), filters.Arg("event", string(events.ActionUnPause)))})
}

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
