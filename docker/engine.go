//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
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

	"lockpick/harness/shortage"
)

// engine is the Docker engine.
type engine struct {
	api *client.Client
	at  endpoint
}

// belonging is what the engine has with our label.
type belonging struct {
	id, name, owner string
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

// connect finds the engine as the docker command does, and speaks the newest API that
// both know, or that of DOCKER_API_VERSION.
func connect() (*engine, error) {
	at, err := find()
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine: %w", err)
	}
	opts := []client.Opt{client.WithVersionFromEnv(), client.WithAPIVersionNegotiation()}
	transport := &http.Transport{TLSClientConfig: at.tls, MaxIdleConns: 6, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: handshakeBound, ResponseHeaderTimeout: answerBound}
	opts = append(opts, client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}))
	if strings.HasPrefix(at.host, "ssh://") {
		command, err := sshCommand(at.host)
		if err != nil {
			return nil, fmt.Errorf("find the Docker engine: %w", err)
		}
		noProxy := func(*client.Client) error { transport.Proxy = nil; return nil } // the name is nobody's
		opts = append(opts, client.WithHost("http://engine-by-ssh"), client.WithDialContext(dialSSH(command)), noProxy)
	} else {
		opts = append(opts, client.WithHost(at.host))
	}
	api, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return nil, fmt.Errorf("find the Docker engine at %s: %w", at, err)
	}
	return &engine{api, at}, nil
}

func (e *engine) close() error { return e.api.Close() }

// about is what the engine says of itself.
type about struct {
	version  string
	api      string // what we speak with it
	platform string // what its containers run on, as in linux
	kernel   string // as in 6.1.0-50-amd64
	arch     string // of its containers in Go's words, as in amd64
}

// about asks the engine, first of all for the API that it speaks: a question at which
// the client would pass over an error, and go on with a version of its own.
func (e *engine) about(ctx context.Context) (about, error) {
	p, err := e.api.Ping(ctx)
	if err != nil {
		return about{}, e.at.silent(err)
	}
	e.api.NegotiateAPIVersionPing(p)
	v, err := e.api.ServerVersion(ctx)
	if err != nil {
		return about{}, e.at.silent(err)
	}
	return about{v.Version, e.api.ClientVersion(), v.Os, v.KernelVersion, v.Arch}, nil
}

func labelled(labels ...string) filters.Args {
	f := filters.NewArgs()
	for _, l := range labels {
		f.Add("label", l)
	}
	return f
}

// dataDir is where a node has its data. Few images have such a directory, and so the
// engine makes it; it lives as long as the container.
const dataDir = "/lockpick"

// making is what a container is made of.
type making struct {
	name, image, network string
	addr                 netip.Addr
	command              []string
	labels               map[string]string
	data                 string // directory of the engine's machine that is dataDir inside; "": none
	talks                bool   // we write to its stdin
	sysctls              map[string]string
	beside               string // another container, whose network it shares; "": none
	traces               string // another, whose processes it sees, and no network; "": none
	capability           string // of the kernel, that it has as the only one; "": none
}

func (m making) mounts() []mount.Mount {
	if m.data == "" {
		return nil
	}
	return []mount.Mount{{Type: mount.TypeBind, Source: m.data, Target: dataDir}}
}

// create makes a container that has no privilege at all, but what it is given.
func (e *engine) create(ctx context.Context, m making) (id string, err error) {
	host := &container.HostConfig{
		NetworkMode: container.NetworkMode(m.network), CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"},
		Mounts: m.mounts(), Sysctls: m.sysctls,
	}
	join := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{m.network: fixed(m.addr)}}
	if m.beside != "" {
		host.NetworkMode, join = container.NetworkMode("container:"+m.beside), nil
	}
	if m.traces != "" {
		host.NetworkMode, host.PidMode, join = "none", container.PidMode("container:"+m.traces), nil
	}
	if m.capability != "" {
		host.CapAdd = []string{m.capability}
	}
	made, err := e.api.ContainerCreate(ctx, &container.Config{
		Image: m.image, Entrypoint: m.command[:1], Cmd: m.command[1:], Labels: m.labels,
		// Whoever the image starts its program as: root without capabilities can write to
		// what root has, as to a directory that the engine makes, and to nobody else's.
		User: "0", WorkingDir: dataDir,
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, // the image's would be load, and ask a paused one
		OpenStdin:   m.talks, StdinOnce: m.talks, AttachStdin: m.talks, AttachStdout: m.talks, AttachStderr: m.talks,
	}, host, join, nil, m.name)
	return made.ID, err
}

// put writes files, as programs may be, into a container that was not started yet.
func (e *engine) put(ctx context.Context, id string, files map[string][]byte) error {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	for path, text := range files {
		if err := tarFile(t, path, text); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return e.api.CopyToContainer(ctx, id, "/", &b, container.CopyToContainerOptions{})
}

// away says whether an error is that no engine answers.
func away(err error) bool {
	return client.IsErrConnectionFailed(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)
}

// start starts a container; ended then gets its exit status, or what kept us from it.
func (e *engine) start(ctx context.Context, id string) (ended func() (status int64, err error), err error) {
	ctx, cancel := context.WithCancel(ctx)
	exit, failed := e.api.ContainerWait(ctx, id, container.WaitConditionNextExit)
	if err := e.api.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
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

// state is what the engine says of a container: its status, as in running or paused,
// and the process id of its first process on the engine's machine.
func (e *engine) state(ctx context.Context, id string) (status string, pid int, err error) {
	is, err := e.api.ContainerInspect(ctx, id)
	if err != nil {
		return "", 0, err
	}
	return is.State.Status, is.State.Pid, nil
}

// attach joins a container's stdin, stdout and stderr, before it starts.
func (e *engine) attach(ctx context.Context, id string, stdout, stderr io.Writer) (in net.Conn, copyOut func() error, err error) {
	a, err := e.api.ContainerAttach(ctx, id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return nil, nil, err
	}
	return a.Conn, func() error {
		_, err := stdcopy.StdCopy(stdout, stderr, a.Reader)
		return err
	}, nil
}

// logs is the end of what a container has written.
func (e *engine) logs(ctx context.Context, id string) string {
	out, err := e.api.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	var text strings.Builder
	if _, err := stdcopy.StdCopy(&text, &text, out); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}

func (e *engine) containers(ctx context.Context, label string) (found []belonging, err error) {
	all, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: labelled(label)})
	for _, c := range all {
		found = append(found, belonging{c.ID, strings.Join(c.Names, " "), c.Labels[ownerLabel], time.Unix(c.Created, 0), c.State == container.StateRunning})
	}
	return found, err
}

func (e *engine) remove(ctx context.Context, id string) error {
	return unlessGone(e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true}))
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

// explain says why there is no engine, and what to do.
func explain(err error) (reason, remedy string) {
	remedy = "see DOCKER_HOST"
	if a := (*endpointError)(nil); errors.As(err, &a) {
		remedy = a.remedy
	}
	remedy = cmp.Or(shortage.Remedy(err, shortage.Temporary), remedy)
	return firstLine(err), remedy
}

// meet finds the engine, agrees with it on an API, and sees that it serves.
func meet(ctx context.Context) (*engine, about, error) {
	e, err := connect()
	if err != nil {
		return nil, about{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, pingBound)
	defer cancel()
	a, err := e.about(ctx)
	if err == nil && a.platform != "linux" {
		err = &endpointError{fmt.Errorf("the engine's containers run on %s", a.platform), "let the engine run Linux containers"}
	}
	if err != nil {
		return nil, about{}, errors.Join(err, e.close())
	}
	return e, a, nil
}

// isHere says whether an engine is on this machine, of which is known what it says of
// itself. If not, it is unknown where it is.
func (p endpoint) isHere(a about) bool {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	return err == nil && p.isSocket() && strings.TrimSpace(string(kernel)) == a.kernel
}

// errOverlaps says that another network has the addresses.
var errOverlaps = errors.New("another network has these addresses")

// makeNetwork makes a bridge from which nothing leads out.
func makeNetwork(ctx context.Context, e *engine, name string, subnet netip.Prefix, gateway netip.Addr, labels map[string]string) (id string, err error) {
	made, err := e.api.NetworkCreate(ctx, name, network.CreateOptions{
		Driver: "bridge", Internal: true, Labels: labels,
		IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet.String(), Gateway: gateway.String()}}},
	})
	if err != nil && strings.Contains(err.Error(), "overlaps") {
		return "", errOverlaps
	}
	return made.ID, err
}

func (e *engine) networks(ctx context.Context, label string) (found []belonging, err error) {
	all, err := e.api.NetworkList(ctx, network.ListOptions{Filters: labelled(label)})
	for _, n := range all {
		found = append(found, belonging{id: n.ID, name: n.Name, owner: n.Labels[ownerLabel], made: n.Created})
	}
	return found, err
}

// errHeld says that the engine believes that somebody is on a network. Under load some
// engines lose count of who has left.
var errHeld = errors.New("the engine takes it for used; it can be removed when the engine has been started again")

func removeNetwork(ctx context.Context, e *engine, id string) error {
	err := unlessGone(e.api.NetworkRemove(ctx, id))
	if err != nil && strings.Contains(err.Error(), "has active endpoints") {
		return errHeld
	}
	return err
}

// fixed is an endpoint on a network, with an address of its own.
func fixed(addr netip.Addr) *network.EndpointSettings {
	return &network.EndpointSettings{IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: addr.String()}}
}

// connect puts a container on a network.
func (e *engine) connect(ctx context.Context, network, id string, addr netip.Addr) error {
	return e.api.NetworkConnect(ctx, network, id, fixed(addr))
}

// disconnectAll takes off a network who is still there, whether it runs or not: one that
// does not could not be started again, once the network is gone.
func disconnectAll(ctx context.Context, e *engine, id string) error {
	there, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("network", id))})
	for _, c := range there {
		err = errors.Join(err, unlessGone(e.api.NetworkDisconnect(ctx, id, c.ID, true)))
	}
	return err
}

// pauses tells of all pauses of containers, and their ends, from now on, and why it ends.
func (e *engine) pauses(ctx context.Context) (<-chan events.Message, <-chan error) {
	return e.api.Events(ctx, events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("event", string(events.ActionPause)), filters.Arg("event", string(events.ActionUnPause)))})
}
