// Package driver is for those who write a driver, which makes a node of a Redis client. Packages
// redisnode and wire are two. Users of a lock need nothing from here.
//
//	Node ── Fencer ── Granter ── Identifier    asked by methods, one goroutine per request
//	Batcher ── Debtor                          asked by Submit and Flush
//
// Node is all that a driver must implement. Each other interface adds one ability, and the lock uses
// it if all of its nodes have it. Answer and Tally are for those who build another lock on the same
// rounds (redlock.Config.Ask). The package also has what drivers share: the Lua scripts of a lock, and
// advice on errors of connections.
//
// A Script is a text and the digest by which a node remembers it; the top of each file says what
// it takes and returns. A node with an ACL must allow the lock's user, on the lock's keys and on
// all keys that begin with a lock's key or with redlock:
//
//	+set +eval +evalsha +get +del +exists +pexpire +pttl +incr +getdel +time +info
//	+script|load +client|id +client|kill +client|setname
//
// Advise adds what to do to an error about passwords, ACLs and certificates, which no lock can fix.
//
// Not here: the one step that needs no script, SET with NX and PX.
package driver

import (
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Script is the text of a script, and its SHA-1 as EVALSHA takes it.
type Script struct{ Text, SHA string }

var (
	//go:embed set_fenced.lua
	setFenced string
	//go:embed raise_fence.lua
	raiseFence string
	//go:embed extend.lua
	extend string
	//go:embed release.lua
	release string
	//go:embed releases.lua
	releases string
	//go:embed grant.lua
	grant string
	//go:embed grants.lua
	grants string
	//go:embed abandon.lua
	abandon string
	//go:embed ready.lua
	ready string
	//go:embed identity.lua
	identity string
	//go:embed run_id.lua
	runID string
)

// The scripts of the steps. Releases is Release for several keys at once, and Grants is Grant.
var (
	SetFenced  = of(setFenced)
	RaiseFence = of(raiseFence)
	Extend     = of(extend)
	Release    = of(release)
	Releases   = of(releases)
	Grant      = of(grant)
	Grants     = of(grants)
	Abandon    = of(abandon)
	Ready      = of(ready)
	Identity   = of(identity)
	RunID      = of(runID)
)

// Scripts are the scripts of a lock's steps, which a node is made to know.
var Scripts = []Script{SetFenced, RaiseFence, Extend, Release, Releases, Grant, Grants, Abandon}

func of(text string) Script {
	sum := sha1.Sum([]byte(text))
	return Script{text, hex.EncodeToString(sum[:])}
}

// Keys of a node by which its quarantine goes.
const (
	KnownAs    = "redlock:run_id"
	Quarantine = "redlock:quarantine"
)

// CountKey is the key under which a node counts the grants of key. It never expires.
func CountKey(key string) string { return key + CountSuffix }

// CountSuffix is what stands behind the key there.
const CountSuffix = ":fence"

// ErrNotSent is wrapped by the error of a request that was never sent. It has no effect on the node, so
// nothing has to be undone.
var ErrNotSent = errors.New("not sent")

// Tombstone is the key under which a node keeps that token was abandoned.
func Tombstone(key, token string) string { return key + ":gone:" + token }

// Advise is err with what to do about it in parentheses behind it, or err itself where nothing is
// known about it.
func Advise(err error) error {
	if do := advise(err); do != "" {
		return fmt.Errorf("%w (%s)", err, do)
	}
	return err
}

// said is what is in errors that nodes send, and that they end TLS with.
var said = []struct{ text, do string }{
	{"NOAUTH ", "give the node's password, and a user name if it has users"},
	{"WRONGPASS ", "check the user name and the password; ACL LIST on the node says which users are on"},
	{"called without any password configured", "give no password, or set one on the node"},
	{"NOPERM ", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"The user executing the script can't run this", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"ACL failure in script", "have the node's ACL allow it; package redlock/driver says what a lock needs"},
	{"MOVED ", "this node belongs to a Redis Cluster: give masters outside of one, as redlock/README.md says under Sentinel and Cluster"},
	{"CROSSSLOT ", "this node belongs to a Redis Cluster: give masters outside of one, as redlock/README.md says under Sentinel and Cluster"},
	{"CLUSTERDOWN ", "this node belongs to a Redis Cluster: give masters outside of one, as redlock/README.md says under Sentinel and Cluster"},
	{"READONLY ", "this node is a replica: give its master, and read in redlock/README.md under Sentinel and Cluster what that means"},
	{"DB index is out of range", "give a database that the node has"},
	{"tls: certificate required", "give this client's certificate, in Certificates of its TLS configuration"},
	{"tls: expired certificate", "renew this client's certificate"},
	{"tls: unknown certificate authority", "give this client a certificate of an authority that the node trusts"},
	{"tls: bad certificate", "give this client a certificate of an authority that the node trusts"},
}

func advise(err error) string {
	if err == nil {
		return ""
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "give the certificate of the node's authority, in RootCAs of the TLS configuration"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the node's certificate, or set this machine's clock"
	case errors.As(err, &name):
		return "name in ServerName of the TLS configuration whom the node's certificate is for"
	case errors.As(err, &noTLS):
		return "leave TLS out, or give the node's TLS port"
	}
	for _, s := range said {
		if strings.Contains(err.Error(), s.text) {
			return s.do
		}
	}
	return ""
}
