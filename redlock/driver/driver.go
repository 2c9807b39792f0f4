// Package driver defines the interfaces between a lock and its driver, which connects it to Redis
// nodes. Packages redisnode and wire are drivers. Only authors of drivers need this package.
//
//	Node ── Fencer ── Granter ── Identifier    called by method, one goroutine per request
//	Batcher ── Settler                         called by Submit and Flush
//
// A driver must implement Node. The other interfaces are optional; a lock uses one if all of its
// nodes implement it. Answer and Tally are for other lock implementations that use
// redlock.Config.Ask. The package also contains code that drivers share: the Lua scripts and hints
// for connection errors.
//
// The comment at the top of each script describes its keys, arguments and result. If a node has an
// ACL, the lock's user needs these permissions for the lock's keys and for all keys that begin with
// a lock's key or with redlock:
//
//	+set +eval +evalsha +get +del +exists +pexpire +pttl +incr +getdel +time +info
//	+script|load +client|id +client|kill +client|setname
//
// Advise adds a hint to errors about passwords, ACLs and certificates, which the user must fix.
//
// There is no script for the plain SET with NX and PX, because that is a single command.
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

// Script is the text of a Lua script and its SHA-1 digest for EVALSHA.
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

// The scripts for the operations. Releases and Grants handle several keys at once.
var (
	SetFenced  = newScript(setFenced)
	RaiseFence = newScript(raiseFence)
	Extend     = newScript(extend)
	Release    = newScript(release)
	Releases   = newScript(releases)
	Grant      = newScript(grant)
	Grants     = newScript(grants)
	Abandon    = newScript(abandon)
	Ready      = newScript(ready)
	Identity   = newScript(identity)
	RunID      = newScript(runID)
)

// Scripts lists the scripts that drivers load into a node.
var Scripts = []Script{SetFenced, RaiseFence, Extend, Release, Releases, Grant, Grants, Abandon}

func newScript(text string) Script {
	sum := sha1.Sum([]byte(text))
	return Script{text, hex.EncodeToString(sum[:])}
}

// Keys for a node's quarantine: RunIDKey stores the run_id of the last known server process, and
// QuarantineKey exists while the node is in quarantine.
const (
	RunIDKey      = "redlock:run_id"
	QuarantineKey = "redlock:quarantine"
)

// CountKey returns the key that stores the number of grants of key on a node. It never expires.
func CountKey(key string) string { return key + CountSuffix }

// CountSuffix is the suffix of all count keys; see CountKey.
const CountSuffix = ":fence"

// ErrNotSent is wrapped by the error for a request that was never sent. The request had no effect
// on the node, so there is nothing to undo.
var ErrNotSent = errors.New("not sent")

// TombstoneKey returns the key that marks token as abandoned if it exists on a node.
func TombstoneKey(key, token string) string { return key + ":gone:" + token }

// Advise returns err with a hint in parentheses, or err itself if there is no hint for it.
func Advise(err error) error {
	if hint := hint(err); hint != "" {
		return fmt.Errorf("%w (%s)", err, hint)
	}
	return err
}

// hints says what the user should do about errors that contain a text. The texts come from Redis
// replies and TLS alerts.
var hints = []struct{ text, advice string }{
	{"NOAUTH ", "set the node's password, and a user name if the node has users"},
	{"WRONGPASS ", "check the user name and the password; ACL LIST on the node says which users are enabled"},
	{"called without any password configured", "remove the password, or set one on the node"},
	{"NOPERM ", "allow it in the node's ACL; the documentation of package redlock/driver lists what a lock needs"},
	{"The user executing the script can't run this", "allow it in the node's ACL; the documentation of package redlock/driver lists what a lock needs"},
	{"ACL failure in script", "allow it in the node's ACL; the documentation of package redlock/driver lists what a lock needs"},
	{"MOVED ", "this node belongs to a Redis Cluster: use standalone masters; see \"Sentinel and Cluster\" in redlock/README.md"},
	{"CROSSSLOT ", "this node belongs to a Redis Cluster: use standalone masters; see \"Sentinel and Cluster\" in redlock/README.md"},
	{"CLUSTERDOWN ", "this node belongs to a Redis Cluster: use standalone masters; see \"Sentinel and Cluster\" in redlock/README.md"},
	{"READONLY ", "this node is a replica: use its master; see \"Sentinel and Cluster\" in redlock/README.md"},
	{"DB index is out of range", "use a database that exists on the node"},
	{"tls: certificate required", "set this client's certificate in the Certificates field of the TLS configuration"},
	{"tls: expired certificate", "renew this client's certificate"},
	{"tls: unknown certificate authority", "use a client certificate issued by an authority that the node trusts"},
	{"tls: bad certificate", "use a client certificate issued by an authority that the node trusts"},
}

func hint(err error) string {
	if err == nil {
		return ""
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "add the certificate of the node's authority to RootCAs in the TLS configuration"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "renew the node's certificate, or correct this machine's clock"
	case errors.As(err, &name):
		return "set ServerName in the TLS configuration to the name in the node's certificate"
	case errors.As(err, &noTLS):
		return "disable TLS, or use the node's TLS port"
	}
	for _, s := range hints {
		if strings.Contains(err.Error(), s.text) {
			return s.advice
		}
	}
	return ""
}
