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

// OwnerLabel is the label of everything that a run creates. Its value is a files.Owner. The value of
// ImageLabel is the kind of an image.
const (
	OwnerLabel = "lockpick"
	ImageLabel = "lockpick.image"
)

type Engine struct {
	API  *client.Client
	Host string // address, such as unix:///var/run/docker.sock
}

// OwnedObject is a container, network or image with an owner label.
type OwnedObject struct {
	ID, Name, owner string
	created         time.Time
	running         bool // only for containers
}

// An engine that accepts a connection but sends nothing hangs, or has died while another process keeps
// its socket open. No call is known to take as long as answerTimeout. The engine immediately starts to
// answer even slow calls, such as a pull or a wait for an exit.
const (
	handshakeTimeout = 10 * time.Second
	answerTimeout    = 2 * time.Minute
)

// Connect returns a client for the engine in DOCKER_HOST. It uses the API version in DOCKER_API_VERSION
// or, by default, the newest version that both sides support. The client library configures TLS from
// DOCKER_CERT_PATH and DOCKER_TLS_VERIFY.
func Connect() (*Engine, error) {
	host, err := findHost()
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine: %w", err)
	}
	setTimeouts := func(c *client.Client) error {
		t := c.HTTPClient().Transport.(*http.Transport)
		t.TLSHandshakeTimeout, t.ResponseHeaderTimeout = handshakeTimeout, answerTimeout
		return nil
	}
	api, err := client.NewClientWithOpts(client.WithTLSClientConfigFromEnv(), client.WithHost(host), setTimeouts,
		client.WithVersionFromEnv(), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine at %s: %w", host, err)
	}
	return &Engine{api, host}, nil
}

func (e *Engine) Close() error { return e.API.Close() }

// About is the engine's description of itself.
type About struct {
	Version  string
	API      string // API version in use
	Platform string // operating system of containers, such as linux
	Kernel   string // such as 6.1.0-50-amd64
	Arch     string // architecture of containers as a GOARCH, such as amd64
}

// About negotiates the API version and queries the engine. It negotiates explicitly because the client
// library would ignore an error and continue with a default version.
func (e *Engine) About(ctx context.Context) (About, error) {
	p, err := e.API.Ping(ctx)
	if err != nil {
		return About{}, e.noAnswerError(err)
	}
	e.API.NegotiateAPIVersionPing(p)
	v, err := e.API.ServerVersion(ctx)
	if err != nil {
		return About{}, e.noAnswerError(err)
	}
	return About{v.Version, e.API.ClientVersion(), v.Os, v.KernelVersion, v.Arch}, nil
}

func labelFilter(labels ...string) filters.Args {
	f := filters.NewArgs()
	for _, l := range labels {
		f.Add("label", l)
	}
	return f
}

// DataDir is a node's data directory. If the image does not have it, the engine creates it. It exists as
// long as the container.
const DataDir = "/lockpick"

// ContainerSpec specifies a container to create.
type ContainerSpec struct {
	Name, Image, Network string
	Addr                 netip.Addr
	Command              []string
	Labels               map[string]string
	HostDataDir          string // directory on the engine's machine to mount at DataDir, or ""
	Attached             bool   // lockpick will attach to the streams
	Sysctls              map[string]string
	NetworkOf            string // container whose network to share, or ""
	ProcessesOf          string // container whose processes to share, or ""; if set, there is no network
	Capability           string // the only kernel capability, or ""
}

func (m ContainerSpec) mounts() []mount.Mount {
	if m.HostDataDir == "" {
		return nil
	}
	return []mount.Mount{{Type: mount.TypeBind, Source: m.HostDataDir, Target: DataDir}}
}

// Create creates a container with no privileges except those in the spec.
func (e *Engine) Create(ctx context.Context, m ContainerSpec) (id string, err error) {
	hostConfig := &container.HostConfig{
		NetworkMode: container.NetworkMode(m.Network), CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Mounts: m.mounts(), Sysctls: m.Sysctls,
		// By default, the engine stores all output of containers.
		LogConfig: container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"}},
	}
	networkConfig := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{m.Network: endpointAt(m.Addr)}}
	if m.Network == "none" {
		networkConfig = nil
	}
	if m.NetworkOf != "" {
		hostConfig.NetworkMode, networkConfig = container.NetworkMode("container:"+m.NetworkOf), nil
	}
	if m.ProcessesOf != "" {
		hostConfig.NetworkMode, hostConfig.PidMode, networkConfig = "none", container.PidMode("container:"+m.ProcessesOf), nil
	}
	if m.Capability != "" {
		hostConfig.CapAdd = []string{m.Capability}
	}
	created, err := e.API.ContainerCreate(ctx, &container.Config{
		Image: m.Image, Entrypoint: m.Command[:1], Cmd: m.Command[1:], Labels: m.Labels,
		// Ignore the image's user. Root without capabilities can write only to root's files, such as a
		// directory created by the engine.
		User: "0", WorkingDir: DataDir,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the image's health check would add load and query paused servers
		OpenStdin:   m.Attached, StdinOnce: m.Attached, AttachStdin: m.Attached, AttachStdout: m.Attached, AttachStderr: m.Attached,
	}, hostConfig, networkConfig, nil, m.Name)
	return created.ID, err
}

// Put copies executable files into a container that has not started yet.
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

// Unreachable reports whether an error means that the engine cannot be reached.
func Unreachable(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// startTimeout limits how long the engine may take to start a container. This normally takes tenths of a
// second, but many times longer on a very busy engine.
const startTimeout = 30 * time.Second

// Start starts a container. The returned function waits until the container exits and returns the exit
// status.
func (e *Engine) Start(ctx context.Context, id string) (wait func() (status int64, err error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	exit, failed := e.API.ContainerWait(ctx, id, container.WaitConditionNextExit)
	limit, cancelStart := context.WithTimeout(ctx, startTimeout)
	defer cancelStart()
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

// State returns a container's status, such as running or paused, and the PID of its first process on the
// engine's machine.
func (e *Engine) State(ctx context.Context, id string) (status string, pid int, err error) {
	info, err := e.API.ContainerInspect(ctx, id)
	if err != nil {
		return "", 0, err
	}
	return info.State.Status, info.State.Pid, nil
}

// Attach connects to the stdin, stdout and stderr of a container that has not started yet.
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

// maxLogBytes limits how much of a container's log is read, because lines may be arbitrarily long.
const maxLogBytes = 64 << 10

// Logs returns the last lines of a container's output, or the error if they cannot be read.
func (e *Engine) Logs(ctx context.Context, id string) string {
	out, err := e.API.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, io.LimitReader(out, maxLogBytes)); err != nil && text.Len() == 0 {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}

func (e *Engine) Containers(ctx context.Context, label string) (found []OwnedObject, err error) {
	all, err := e.API.ContainerList(ctx, container.ListOptions{All: true, Filters: labelFilter(label)})
	for _, c := range all {
		found = append(found, OwnedObject{c.ID, strings.Join(c.Names, " "), c.Labels[OwnerLabel], time.Unix(c.Created, 0), c.State == container.StateRunning})
	}
	return found, err
}

func (e *Engine) Remove(ctx context.Context, id string) error {
	return ignoreGone(e.API.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}))
}

// ignoreGone ignores errors from removing an object that has been or is being removed.
func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) || err != nil && strings.Contains(err.Error(), "already in progress") {
		return nil
	}
	return err
}

// pingTimeout limits how long the engine may take to answer the first queries.
const pingTimeout = 5 * time.Second

// Explain returns why there is no usable engine and how to fix that.
func Explain(err error) (reason, remedy string) {
	remedy = "set DOCKER_HOST, for example to unix://" + DefaultSocket + " or tcp://HOST:2375"
	if a := (*endpointError)(nil); errors.As(err, &a) {
		remedy = a.Remedy
	}
	remedy = cmp.Or(files.Remedy(err, files.TempDirHint), remedy)
	return FirstLine(err), remedy
}

// Open connects to the engine, negotiates the API version, and checks that the engine runs Linux
// containers.
func Open(ctx context.Context) (*Engine, About, error) {
	e, err := Connect()
	if err != nil {
		return nil, About{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
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

// ErrOverlaps reports that another network uses some of the same addresses.
var ErrOverlaps = errors.New("another network has these addresses")

// MakeNetwork creates a bridge network without access to other networks.
func MakeNetwork(ctx context.Context, e *Engine, name string, subnet netip.Prefix, gateway netip.Addr, labels map[string]string) (id string, err error) {
	created, err := e.API.NetworkCreate(ctx, name, network.CreateOptions{
		Driver: "bridge", Internal: true, Labels: labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway.String()}}},
	})
	if err != nil && strings.Contains(err.Error(), "overlaps") {
		return "", ErrOverlaps
	}
	return created.ID, err
}

func (e *Engine) Networks(ctx context.Context, label string) (found []OwnedObject, err error) {
	all, err := e.API.NetworkList(ctx, network.ListOptions{Filters: labelFilter(label)})
	for _, n := range all {
		found = append(found, OwnedObject{ID: n.ID, Name: n.Name, owner: n.Labels[OwnerLabel], created: n.Created})
	}
	return found, err
}

// errNetworkInUse reports that the engine thinks containers use a network. Under load, some engines miss
// that containers have left a network.
var errNetworkInUse = errors.New("the engine thinks it is in use; it can be removed after restarting the engine")

func removeNetwork(ctx context.Context, e *Engine, id string) error {
	err := ignoreGone(e.API.NetworkRemove(ctx, id))
	if err != nil && strings.Contains(err.Error(), "has active endpoints") {
		return errNetworkInUse
	}
	return err
}

// endpointAt returns settings to connect a container to a network with a fixed address.
func endpointAt(addr netip.Addr) *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: addr.String()}}
}

// Connect connects a container to a network with a fixed address.
func (e *Engine) Connect(ctx context.Context, network, id string, addr netip.Addr) error {
	return e.API.NetworkConnect(ctx, network, id, endpointAt(addr))
}

// PauseEvents streams pauses and resumptions of all containers from now on. The error channel reports why
// the stream ended.
func (e *Engine) PauseEvents(ctx context.Context) (<-chan events.Message, <-chan error) {
	return e.API.Events(ctx, events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionPause)), filters.Arg("event", string(events.ActionUnPause)))})
}

// endpointError reports why there is no usable engine and how to fix that.
type endpointError struct {
	error
	Remedy string
}

func (a *endpointError) Unwrap() error { return a.error }

// DefaultSocket is the engine's default socket.
const DefaultSocket = "/var/run/docker.sock"

const (
	hostFromContext = "export DOCKER_HOST=$(docker context inspect -f '{{.Endpoints.docker.Host}}')"

	// StartEngine is the suggested remedy if nothing listens on a socket.
	StartEngine = "start an engine (apt-get install docker.io; dockerd &), or use the docker command's: " + hostFromContext
)

// findHost returns the address in DOCKER_HOST or, by default, of this machine's socket. It rejects ssh://
// addresses and DOCKER_CONTEXT, because if it ignored them, it would select an engine that the user did
// not intend.
func findHost() (string, error) {
	host, context := os.Getenv("DOCKER_HOST"), os.Getenv("DOCKER_CONTEXT")
	switch {
	case strings.HasPrefix(host, "ssh://"):
		return "", &endpointError{errors.New("DOCKER_HOST is an ssh:// address, which lockpick does not support"),
			"run ssh -NL 127.0.0.1:2375:" + DefaultSocket + " USER@HOST, and in another shell export DOCKER_HOST=tcp://127.0.0.1:2375"}
	case host != "":
		return host, nil
	case context != "" && context != "default":
		return "", &endpointError{fmt.Errorf("DOCKER_CONTEXT is %s, but lockpick uses only DOCKER_HOST", context), hostFromContext}
	}
	return "unix://" + localSocket(DefaultSocket), nil
}

// localSocket returns the path of the socket of this machine's engine: the default path or, if that does
// not exist, the socket of a rootless engine.
func localSocket(defaultPath string) string {
	if run := os.Getenv("XDG_RUNTIME_DIR"); run != "" && !exists(defaultPath) {
		if rootless := filepath.Join(run, "docker.sock"); exists(rootless) {
			return rootless
		}
	}
	return defaultPath
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// noAnswerError returns the error for an engine that does not answer, with a remedy.
func (e *Engine) noAnswerError(err error) error {
	remedy := "start an engine there, or set DOCKER_HOST to another engine"
	switch {
	case e.isSocket() && errors.Is(err, fs.ErrPermission):
		path := strings.TrimPrefix(e.Host, "unix://")
		remedy = "run lockpick in the socket's group (newgrp docker; in a container, --group-add $(stat -c %g " + path + "))"
	case e.isSocket():
		remedy = StartEngine
	}
	return &endpointError{fmt.Errorf("no Docker engine answers at %s: %w", e.Host, err), remedy}
}

// isSocket reports whether the engine has a local socket. Such an engine may still run in a virtual
// machine.
func (e *Engine) isSocket() bool { return strings.HasPrefix(e.Host, "unix://") }

// IsLocal reports whether the engine is known to be on this machine because it has a local socket and runs
// on our kernel. If not, it may still be on this machine.
func (e *Engine) IsLocal(a About) bool {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && e.isSocket() && strings.TrimSpace(string(kernel)) == a.Kernel
}

// SharesFiles reports whether the engine sees the same files as this process, because both have the same
// root directory. If lockpick runs in a container with access to the engine's socket, this is not the case
// although the engine is on this machine.
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
	var peer *syscall.Ucred // the PID is 0 if the peer is in a namespace not visible here
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
