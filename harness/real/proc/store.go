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

// Store is a kind of server other than Redis, such as etcd. Its servers sync each write before they
// answer.
type Store struct {
	Name    string
	Program string // must be on PATH
	Remedy  string // how to install the program
	Ports   int    // number of ports per member; clients connect to the first
	// ProbePath is the URL path for testing over a link whether a member answers.
	ProbePath string
	Version   []string                                         // arguments for printing the version
	Args      func(me StoreMember, all []StoreMember) []string // program arguments for member me

	aliveURL  func(me StoreMember) (url string)           // answered by a running member, even if the others are down
	joinCheck func(me StoreMember) (url, contains string) // the answer contains this text if the member has joined the others
}

// StoreMember is one server of a store.
type StoreMember struct {
	Name  string
	Dir   string   // data directory
	Addrs []string // host:port of each of its ports
}

var Stores = []Store{
	{
		Name: lock.Etcd, Program: "etcd", Remedy: "apt-get install etcd-server", Ports: 2, ProbePath: "/version",
		Version: []string{"--version"},
		Args:    etcdArgs,
		// The peer address, because the client address answers only once a majority knows the member.
		aliveURL:  func(me StoreMember) string { return "http://" + me.Addrs[1] + "/version" },
		joinCheck: func(me StoreMember) (string, string) { return "http://" + me.Addrs[0] + "/health", `"health":"true"` },
	},
	{
		Name: lock.Consul, Program: "consul", Remedy: "put HashiCorp's consul on PATH", Ports: 3, ProbePath: "/v1/agent/self",
		Version:   []string{"version"},
		Args:      consulArgs,
		aliveURL:  func(me StoreMember) string { return "http://" + me.Addrs[0] + "/v1/agent/self" },
		joinCheck: func(me StoreMember) (string, string) { return "http://" + me.Addrs[0] + "/v1/status/leader", ":" },
	},
}

var storeVersion = regexp.MustCompile(`(?:^|\s)v?([0-9]\S*)`)

// AskVersion returns the store's name and the version printed by its program, for example "etcd
// 3.4.23".
func (s Store) AskVersion(ctx context.Context) (string, error) {
	v, err := AskVersion(ctx, storeVersion, s.Program, s.Version...)
	if err != nil {
		return "", err
	}
	return s.Name + " " + v, nil
}

// StoreOf returns the store with the given name.
func StoreOf(name string) (Store, error) {
	for _, s := range Stores {
		if s.Name == name {
			return s, nil
		}
	}
	return Store{}, fmt.Errorf("unknown server %q", name)
}

// etcdArgs uses the shortest timeouts that don't make a cluster on a busy machine lose its leader.
// They allow leases as short as one second.
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

// consulArgs lets sessions be as short as a lock requests. The default minimum is ten seconds.
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

// CheckAlive checks that a member answers, bypassing links.
func (s Store) CheckAlive(ctx context.Context, me StoreMember) error {
	_, err := askStore(ctx, s.aliveURL(me))
	return err
}

// CheckJoined checks that a member has formed a cluster with a majority of the members.
func (s Store) CheckJoined(ctx context.Context, me StoreMember) error {
	url, want := s.joinCheck(me)
	body, err := askStore(ctx, url)
	if err == nil && !strings.Contains(body, want) {
		err = fmt.Errorf("%s has not joined the others: unexpected answer %.100q", me.Name, body)
	}
	return err
}

// Ask checks that a member answers at the given address, which may belong to a link.
func (s Store) Ask(ctx context.Context, addr string) error {
	_, err := askStore(ctx, "http://"+addr+s.ProbePath)
	return err
}

// maxAnswerLen limits the bytes read from an answer.
const maxAnswerLen = 64 << 10

// askStore sends a request on a new connection, without an HTTP proxy. An error page counts as an
// answer.
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
	b, err := io.ReadAll(io.LimitReader(a.Body, maxAnswerLen))
	return string(b), err
}
