package wire_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

// securedServer is a real server with a Unix socket, a TLS port, users and a password.
type securedServer struct {
	*testing.T
	admin                      *redis.Client // uses one connection, opened before a password was set
	plainAddr, tlsAddr, socket string        // addresses
	trustedCA, otherCA         *authority    // the server trusts only trustedCA
}

func newSecuredServer(t *testing.T) *securedServer {
	dir, err := os.MkdirTemp("", "lockpick-socket") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	g := &securedServer{T: t, socket: filepath.Join(dir, "s"), trustedCA: newAuthority(t, "own"), otherCA: newAuthority(t, "other")}
	g.plainAddr = redistest.Start(t, 1, "--unixsocket", g.socket)[0]
	o := redisnode.Options(g.plainAddr)
	o.PoolSize = 1
	g.admin = redis.NewClient(o)
	t.Cleanup(func() { g.admin.Close() })
	g.trustedCA.issue("server", 2*time.Hour)
	g.trustedCA.issue("expired", time.Minute)
	for range 5 { // another process may take the port
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		g.tlsAddr = l.Addr().String()
		l.Close()
		if err = g.setCertificate("server", "tls-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port)); err == nil {
			return g
		} else if strings.Contains(err.Error(), "Unknown option") {
			t.Skip("skipped: this redis-server was built without TLS")
		}
	}
	t.Fatal("found no free port for TLS")
	return nil
}

// setCertificate sets the server's certificate and additional settings.
func (g *securedServer) setCertificate(cert string, settings ...any) error {
	return g.admin.Do(g.Context(), append([]any{"CONFIG", "SET", "tls-ca-cert-file", g.trustedCA.file("ca.crt"),
		"tls-cert-file", g.trustedCA.file(cert + ".crt"), "tls-key-file", g.trustedCA.file(cert + ".key")}, settings...)...).Err()
}

func (g *securedServer) mustDo(args ...any) {
	g.Helper()
	if err := g.admin.Do(g.Context(), args...).Err(); err != nil {
		g.Fatalf("%v: %v", args, err)
	}
}

// access describes how a user connects to the server.
type access struct {
	addr, user, password string
	tls                  *tls.Config
	resp                 int           // protocol version for go-redis; default 2
	dialTimeout          time.Duration // default 10 s
	onlyDriver           string        // if set, other drivers are not tested
}

// nodes returns a node on the server for each driver.
func (g *securedServer) nodes(w access) map[string]redlock.Node {
	w.dialTimeout = cmp.Or(w.dialTimeout, 10*time.Second)
	wireNode := wire.New(wire.Options{Addr: w.addr, Username: w.user, Password: w.password, TLS: w.tls, ClientName: "lock", Timeout: 10 * time.Second, DialTimeout: w.dialTimeout})
	o := redisnode.Options(w.addr)
	o.Username, o.Password, o.DialTimeout, o.TLSConfig = w.user, w.password, w.dialTimeout, w.tls
	if w.resp != 0 {
		o.Protocol = w.resp
	}
	if w.addr == g.socket {
		o.Network = "unix"
	}
	client := redis.NewClient(o)
	g.Cleanup(func() { wireNode.Close(); client.Close() })
	all := map[string]redlock.Node{"wire": wireNode, "redisnode": redisnode.New(client)}
	if w.onlyDriver != "" {
		maps.DeleteFunc(all, func(driver string, _ redlock.Node) bool { return driver != w.onlyDriver })
	}
	return all
}

// lock performs every operation of a lock on a node.
func (g *securedServer) lock(n redlock.Node) error {
	ctx := g.Context()
	l, err := redlock.New(redlock.Config{Nodes: []redlock.Node{n}, TTL: time.Minute, Timeout: 10 * time.Second, Quarantine: time.Minute, Fence: true, Repair: true, Tries: 1})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := n.(interface{ Ready(context.Context) error }).Ready(ctx); err != nil {
		return err
	}
	s, err := l.Acquire(ctx, "k")
	if err != nil {
		return err
	}
	if other, err := l.Acquire(ctx, "k"); err == nil {
		return fmt.Errorf("a second client acquired the lock with token %v while it was held", other.Token())
	}
	if _, err := n.(driver.Fencer).RaiseFence(ctx, "k", s.Token(), s.Fence()+5); err != nil {
		return err
	}
	if _, err := n.(driver.Granter).Abandon(ctx, "k", "another", time.Millisecond); err != nil {
		return err
	}
	if err := s.Extend(ctx); err != nil {
		return err
	}
	return s.Release(ctx)
}

// With both drivers, locks work on servers with passwords, users, ACLs, TLS and Unix sockets.
func TestServerConfigurations(t *testing.T) {
	g := newSecuredServer(t)
	wantWorking := func(name string, w access) {
		t.Helper()
		for driver, n := range g.nodes(w) {
			if err := g.lock(n); err != nil {
				t.Errorf("%s, %s: %v", name, driver, err)
			}
		}
	}
	ofClient := g.trustedCA.issue("client", 2*time.Hour)
	wantWorking("a Unix socket", access{addr: g.socket})
	wantWorking("RESP3", access{addr: g.plainAddr, resp: 3})
	wantWorking("TLS with a client's certificate", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig(ofClient)})
	g.mustDo("CONFIG", "SET", "tls-auth-clients", "no")
	wantWorking("TLS with a private authority", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig()})
	g.mustDo("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all")
	g.mustDo(append([]any{"ACL", "SETUSER", "bob", "on", ">secret", "~k", "~k:*", "~redlock:*"}, documentedPermissions(t)...)...)
	g.mustDo("CONFIG", "SET", "requirepass", "pass")
	wantWorking("a password", access{addr: g.plainAddr, password: "pass"})
	wantWorking("a user", access{addr: g.plainAddr, user: "ann", password: "secret", resp: 3})
	wantWorking("a Unix socket and a user", access{addr: g.socket, user: "ann", password: "secret"})
	wantWorking("TLS and a user", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig(ofClient), user: "ann", password: "secret"})
	wantWorking("a user with the documented permissions", access{addr: g.plainAddr, user: "bob", password: "secret"})
	for _, permission := range []string{"+set", "+incr", "+evalsha", "+eval", "+client|id"} {
		g.mustDo("ACL", "SETUSER", "bob", "-"+permission[1:])
		numFailed := 0
		for driver, n := range g.nodes(access{addr: g.plainAddr, user: "bob", password: "secret"}) {
			if err := g.lock(n); err != nil {
				numFailed++
				if !strings.Contains(err.Error(), "package redlock/driver lists what a lock needs") {
					t.Errorf("%s without permission %s: %v", driver, permission, err)
				}
			}
		}
		if numFailed == 0 {
			t.Errorf("permission %s is not needed", permission)
		}
		g.mustDo("ACL", "SETUSER", "bob", permission)
	}
}

// documentedPermissions returns the permissions that a lock's user needs according to package
// driver's documentation.
func documentedPermissions(t *testing.T) (words []any) {
	text, err := os.ReadFile("../driver/driver.go")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "//\t+"); ok {
			for _, w := range strings.Fields("+" + rest) {
				words = append(words, w)
			}
		}
	}
	if len(words) < 5 {
		t.Fatalf("found only these permissions: %v", words)
	}
	return words
}

// Authentication errors say what is wrong, where, and how to fix it. The drivers do not reconnect
// over and over.
func TestAuthenticationErrors(t *testing.T) {
	g := newSecuredServer(t)
	g.mustDo("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all")
	// When a server closes a connection, its last message may get lost. Both drivers then report a
	// closed connection, and wire adds the likely reason.
	wantError := func(name string, w access, says string) {
		t.Helper()
		for driver, n := range g.nodes(w) {
			before := g.numConnections()
			err := g.lock(n)
			if err == nil {
				t.Errorf("%s, %s: the lock works, want an error", name, driver)
				continue
			}
			says := says
			if driver == "redisnode" && w.tls != nil {
				says += "|reset|broken pipe|EOF"
			}
			if !containsAny(err.Error(), says) || !strings.Contains(fmt.Sprint(n, err), w.addr) {
				t.Errorf("%s, %s: %v; want %q", name, driver, err, says)
			}
			if n := g.numConnections() - before; n > 2 {
				t.Errorf("%s, %s: %d connections, want at most 2", name, driver, n)
			}
		}
	}
	ofClient := g.trustedCA.issue("client", 2*time.Hour)
	wantError("no certificate", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig()}, "set this client's certificate|it may require a client certificate")
	wantError("another authority's certificate", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig(g.otherCA.issue("client", 2*time.Hour))}, "that the node trusts|it may require a client certificate")
	wantError("an expired certificate", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig(g.trustedCA.issue("old", time.Minute))}, "renew this client's certificate|it may require a client certificate")
	wantError("a server certificate from another authority", access{addr: g.tlsAddr, tls: g.otherCA.clientConfig(ofClient)}, "to RootCAs")
	elsewhere := g.trustedCA.clientConfig(ofClient)
	elsewhere.ServerName = "elsewhere"
	wantError("another server name", access{addr: g.tlsAddr, tls: elsewhere}, "set ServerName")
	wantError("TLS to a plain port", access{addr: g.plainAddr, tls: g.trustedCA.clientConfig(), dialTimeout: 100 * time.Millisecond}, "the server might not use TLS|deadline exceeded")
	wantError("a TLS port without TLS", access{addr: g.tlsAddr}, "it may require TLS|EOF|reset")
	wantError("no socket", access{addr: g.socket + "x"}, "no such file")
	if err := g.setCertificate("expired"); err != nil {
		t.Fatal(err)
	}
	wantError("a server's expired certificate", access{addr: g.tlsAddr, tls: g.trustedCA.clientConfig(ofClient)}, "renew the node's certificate")
	wantError("a password on a server without one", access{addr: g.plainAddr, password: "x", onlyDriver: "wire"}, "remove the password") // go-redis connects without the password
	g.mustDo("CONFIG", "SET", "requirepass", "pass")
	wantError("no password", access{addr: g.plainAddr}, "set the node's password")
	wantError("a wrong password", access{addr: g.socket, password: "x"}, "check the user name and the password")
	wantError("a wrong user", access{addr: g.plainAddr, user: "eve", password: "secret", resp: 3}, "check the user name and the password")
}

// containsAny reports whether text contains any of the words, which are separated by "|".
func containsAny(text, words string) bool {
	for w := range strings.SplitSeq(words, "|") {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// numConnections returns how many connections the server has accepted so far.
func (g *securedServer) numConnections() (n int) {
	text, err := g.admin.Info(g.Context(), "stats").Result()
	if err != nil {
		g.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "total_connections_received:")
	fmt.Sscan(rest, &n)
	return n
}
