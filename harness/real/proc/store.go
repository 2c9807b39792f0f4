package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"lockpick/harness/lock"
)

// Store is a sort of servers. Each syncs what it has written before it answers.
type Store struct {
	Name    string
	Program string // on PATH
	Remedy  string // what to do where it is not there
	Ports   int    // addresses of one member; the first is where clients find it
	// Question is the path by which a member shows over a link that it answers.
	Question string
	Version  []string                                         // arguments by which the program tells its version
	Args     func(me StoreMember, all []StoreMember) []string // of the program, for one member of all

	alive  func(me StoreMember) (url string)           // answered by a member that runs, whether or not others do
	joined func(me StoreMember) (url, contains string) // what a member answers that has joined the others
}

// StoreMember is one server of a run's.
type StoreMember struct {
	Name  string
	Dir   string   // of its data
	Addrs []string // host:port of each of its ports
}

// Stores is the one table of them.
var Stores = []Store{
	{
		Name: lock.Etcd, Program: "etcd", Remedy: "apt-get install etcd-server", Ports: 2, Question: "/version",
		Version: []string{"--version"},
		Args:    etcdArgs,
		// By the others' address, for clients find a member only once it has been heard by a majority.
		alive:  func(me StoreMember) string { return "http://" + me.Addrs[1] + "/version" },
		joined: func(me StoreMember) (string, string) { return "http://" + me.Addrs[0] + "/health", `"health":"true"` },
	},
	{
		Name: lock.Consul, Program: "consul", Remedy: "put HashiCorp's consul on PATH", Ports: 3, Question: "/v1/agent/self",
		Version: []string{"version"},
		Args:    consulArgs,
		alive:   func(me StoreMember) string { return "http://" + me.Addrs[0] + "/v1/agent/self" },
		joined:  func(me StoreMember) (string, string) { return "http://" + me.Addrs[0] + "/v1/status/leader", ":" },
	},
}

var storeVersion = regexp.MustCompile(`(?:^|\s)v?([0-9]\S*)`)

// AskVersion is what the program of a store says that it is, as "etcd 3.4.23".
func (s Store) AskVersion(ctx context.Context) (string, error) {
	v, err := AskVersion(ctx, storeVersion, s.Program, s.Version...)
	if err != nil {
		return "", err
	}
	return s.Name + " " + v, nil
}

// StoreOf finds one by its name.
func StoreOf(name string) (Store, error) {
	for _, s := range Stores {
		if s.Name == name {
			return s, nil
		}
	}
	return Store{}, fmt.Errorf("there is no server %q", name)
}

// etcdArgs has the shortest time-outs by which a busy machine keeps its leader: with them the
// shortest lease is a second.
func etcdArgs(me StoreMember, all []StoreMember) []string {
	var cluster []string
	for _, m := range all {
		cluster = append(cluster, m.Name+"=http://"+m.Addrs[1])
	}
	client, peer := "http://"+me.Addrs[0], "http://"+me.Addrs[1]
	return []string{
		"--name", me.Name, "--data-dir", me.Dir, "--heartbeat-interval", "50", "--election-timeout", "500",
		"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(cluster, ","), "--initial-cluster-state", "new",
	}
}

// consulArgs lets sessions be as short as a lock asks for, not ten seconds at the least.
func consulArgs(me StoreMember, all []StoreMember) []string {
	port := func(i int) string { return me.Addrs[i][strings.LastIndexByte(me.Addrs[i], ':')+1:] }
	args := []string{
		"agent", "-server", "-bootstrap-expect", fmt.Sprint(len(all)), "-node", me.Name, "-data-dir", me.Dir, "-disable-host-node-id",
		"-bind", "127.0.0.1", "-client", "127.0.0.1", "-http-port", port(0), "-server-port", port(1), "-serf-lan-port", port(2),
		"-serf-wan-port", "-1", "-dns-port", "-1", "-grpc-port", "-1", "-retry-interval", "1s", "-log-level", "warn",
		"-hcl", `session_ttl_min = "1s" performance { raft_multiplier = 1 }`,
	}
	for _, m := range all {
		if m.Name != me.Name {
			args = append(args, "-retry-join", m.Addrs[2])
		}
	}
	return args
}

// Alive asks a member, past the links, whether it is there.
func (s Store) Alive(ctx context.Context, me StoreMember) error {
	_, err := askStore(ctx, s.alive(me))
	return err
}

// Joined asks a member whether it and a majority of the others are one.
func (s Store) Joined(ctx context.Context, me StoreMember) error {
	url, want := s.joined(me)
	body, err := askStore(ctx, url)
	if err == nil && !strings.Contains(body, want) {
		err = fmt.Errorf("%s has not joined the others: it says %.100q", me.Name, body)
	}
	return err
}

// Ask sees that a member answers at an address, be it that of a link.
func (s Store) Ask(ctx context.Context, addr string) error {
	_, err := askStore(ctx, "http://"+addr+s.Question)
	return err
}

// longest is how many bytes of an answer are read.
const longest = 64 << 10

// askStore is a request on a connection of its own, and by no proxy. An error page is an answer.
func askStore(ctx context.Context, url string) (body string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	t := &http.Transport{DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	a, err := t.RoundTrip(r)
	if err != nil {
		return "", errors.Join(ctx.Err(), err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(io.LimitReader(a.Body, longest))
	return string(b), err
}
