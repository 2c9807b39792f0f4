// Package script has the steps of a lock that a Redis node carries out as Lua
// scripts, for whoever talks to nodes by whatever client.
//
// Its noun is Script, a text and the digest by which a node remembers it. What a
// script takes and answers stands at the top of its file.
//
// A node with an ACL must allow the lock's user, on the lock's keys and on all that begin with
// a lock's key or with redlock:
//
//	+set +eval +evalsha +get +del +exists +pexpire +pttl +incr +getdel +time +info
//
// and what package wire begins a connection with:
//
//	+script|load +client|id +client|kill +client|setname
//
// Deliberately missing: the step that needs no script, SET with NX and PX.
package driver

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
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

// The steps. Releases is Release for several keys at once, and Grants is Grant.
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

// All are the scripts of a lock's steps, which a node is made to know.
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

// Count is the key under which a node counts the grants of key. It never expires.
func CountKey(key string) string { return key + CountSuffix }

// CountSuffix is what stands behind the key there.
const CountSuffix = ":fence"

// Tombstone is the key under which a node keeps that token was abandoned.
func Tombstone(key, token string) string { return key + ":gone:" + token }
